#include "simgpu/stream/op.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/resize.h"
#include "simgpu/shared/time_slice.h"
#include "simgpu/stream/stream.h"

const struct sg_op_kind sg_kind_nothing = {
    .name = "nothing", .is_capturable = 1, .node_type = CU_GRAPH_NODE_TYPE_EMPTY};
const struct sg_op_kind sg_kind_wait = {.name = "wait"};

struct sg_op *sg_op_new(const struct sg_op_kind *kind)
{
    struct sg_op *op = calloc(1, sizeof *op);
    if (!op) {
        abort(); /* the host has not even a few hundred bytes */
    }
    op->kind = kind;
    return op;
}

struct sg_op *sg_op_copy(const struct sg_op *op)
{
    struct sg_op *copy = sg_op_new(op->kind);
    *copy = *op;
    copy->next = NULL;
    copy->waits = NULL;
    copy->wait_count = 0;
    if (op->kind->copy) {
        op->kind->copy(copy);
    }
    return copy;
}

void sg_op_free(struct sg_op *op)
{
    for (size_t i = 0; i < op->wait_count; i++) {
        sg_stream_unref(op->waits[i].stream);
    }
    free(op->waits);
    if (op->kind->release) {
        op->kind->release(op);
    }
    free(op);
}

void sg_op_wait_for(struct sg_op *op, CUstream stream, uint64_t number)
{
    op->waits = sg_resize(op->waits, (op->wait_count + 1) * sizeof *op->waits);
    sg_stream_ref(stream);
    op->waits[op->wait_count++] = (struct sg_wait){stream, number};
}

void sg_op_count(const struct sg_op *op)
{
    if (op->kind->count) {
        op->kind->count(op);
    }
}

void sg_op_execute(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    if (!op->kind->execute) {
        return;
    }
    if (op->kind->leaves_compute) {
        sg_slice_leave(stream->context->gpu);
    }
    op->kind->execute(op, stream, ready_ns);
    if (op->kind->leaves_compute) {
        sg_slice_enter(stream->context->gpu);
    }
}
