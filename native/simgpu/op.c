#include "simgpu/op.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/capture.h"
#include "simgpu/graph.h"
#include "simgpu/graph_memory.h"
#include "simgpu/resize.h"

struct sg_op *sg_op_new(enum sg_op_kind kind)
{
    struct sg_op *op = calloc(1, sizeof *op);
    if (!op) {
        abort(); /* a few hundred bytes of host memory: there is no way on */
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
    if (op->kind == SG_OP_KERNEL && op->kernel.bytes) {
        copy->kernel.values = malloc(op->kernel.bytes);
        memcpy(copy->kernel.values, op->kernel.values, op->kernel.bytes);
    } else if (op->kind == SG_OP_COPY && op->copy.staged) {
        copy->copy.staged = malloc(op->copy.width);
        memcpy(copy->copy.staged, op->copy.staged, op->copy.width);
        copy->copy.src = (uint64_t)(uintptr_t)copy->copy.staged;
    } else if (op->kind == SG_OP_RECORD) {
        __atomic_add_fetch(&op->record->refs, 1, __ATOMIC_ACQ_REL);
    } else if (op->kind == SG_OP_GRAPH) {
        sg_graph_exec_ref(op->graph);
    } else if (op->kind == SG_OP_GRAPH_ALLOC || op->kind == SG_OP_GRAPH_FREE) {
        sg_graph_memory_ref(op->memory);
    }
    return copy;
}

void sg_record_unref(struct sg_record *record)
{
    if (!record || __atomic_sub_fetch(&record->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    if (record->stream) {
        sg_stream_unref(record->stream);
    }
    if (record->capture) {
        sg_capture_unref(record->capture);
    }
    free(record->nodes);
    free(record);
}

void sg_op_free(struct sg_op *op)
{
    for (size_t i = 0; i < op->wait_count; i++) {
        sg_stream_unref(op->waits[i].stream);
    }
    free(op->waits);
    if (op->kind == SG_OP_KERNEL) {
        free(op->kernel.values);
    } else if (op->kind == SG_OP_COPY) {
        free(op->copy.staged);
    } else if (op->kind == SG_OP_RECORD) {
        sg_record_unref(op->record);
    } else if (op->kind == SG_OP_GRAPH) {
        sg_graph_exec_unref(op->graph);
    } else if (op->kind == SG_OP_GRAPH_ALLOC || op->kind == SG_OP_GRAPH_FREE) {
        sg_graph_memory_unref(op->memory);
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
    if (op->kind == SG_OP_KERNEL) {
        sg_count(SG_LAUNCHED, 0);
    } else if (op->kind == SG_OP_COPY) {
        sg_count(SG_COPIED, (uint64_t)op->copy.width * op->copy.height * op->copy.depth);
    } else if (op->kind == SG_OP_SET) {
        sg_count(SG_SET, 0);
    } else if (op->kind == SG_OP_HOST || op->kind == SG_OP_CALLBACK) {
        sg_count(SG_HOST_CALLED, 0);
    } else if (op->kind == SG_OP_GRAPH) {
        sg_graph_count(op->graph);
    }
}
