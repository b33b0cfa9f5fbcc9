#include "simgpu/op.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/capture.h"
#include "simgpu/event_share.h"
#include "simgpu/graph.h"
#include "simgpu/graph_conditional.h"
#include "simgpu/graph_memory.h"
#include "simgpu/resize.h"
#include "simgpu/stream.h"

struct sg_op *sg_op_new(enum sg_op_kind kind)
{
    struct sg_op *op = calloc(1, sizeof *op);
    if (!op) {
        abort(); /* a few hundred bytes of host memory: there is no way on */
    }
    op->kind = kind;
    return op;
}

static void *copied(const void *from, size_t bytes)
{
    void *copy = from && bytes ? malloc(bytes) : NULL;
    if (copy) {
        memcpy(copy, from, bytes);
    } else if (from && bytes) {
        abort(); /* as above */
    }
    return copy;
}

struct sg_op *sg_op_copy(const struct sg_op *op)
{
    struct sg_op *copy = sg_op_new(op->kind);
    *copy = *op;
    copy->next = NULL;
    copy->waits = NULL;
    copy->wait_count = 0;
    if (op->kind == SG_OP_KERNEL) {
        copy->kernel.values = copied(op->kernel.values, op->kernel.bytes);
        copy->kernel.attributes = copied(op->kernel.attributes, sizeof *op->kernel.attributes);
    } else if (op->kind == SG_OP_MEMOPS) {
        copy->memops.items = copied(op->memops.items, op->memops.count * sizeof *op->memops.items);
    } else if (op->kind == SG_OP_CONDITIONAL) {
        copy->conditional = sg_conditional_copy(op->conditional);
    } else if (op->kind == SG_OP_COPY && op->copy.staged) {
        copy->copy.staged = malloc(op->copy.width);
        memcpy(copy->copy.staged, op->copy.staged, op->copy.width);
        copy->copy.src = (uint64_t)(uintptr_t)copy->copy.staged;
    } else if (op->kind == SG_OP_RECORD) {
        __atomic_add_fetch(&op->record->refs, 1, __ATOMIC_ACQ_REL);
    } else if (op->kind == SG_OP_GRAPH) {
        sg_graph_exec_ref(op->graph.exec);
        copy->graph.records = NULL;
        copy->graph.record_count = 0;
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

void sg_record_done(struct sg_record *record)
{
    CUcontext context = record->stream->context;
    pthread_mutex_lock(&context->lock);
    record->number = 0;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
}

void sg_record_wait(struct sg_record *record)
{
    CUcontext context = record->stream->context;
    pthread_mutex_lock(&context->lock);
    while (record->stream->completed < record->number) {
        sg_context_wait(context);
    }
    pthread_mutex_unlock(&context->lock);
}

void sg_op_free(struct sg_op *op)
{
    for (size_t i = 0; i < op->wait_count; i++) {
        sg_stream_unref(op->waits[i].stream);
    }
    free(op->waits);
    if (op->kind == SG_OP_KERNEL) {
        free(op->kernel.values);
        free(op->kernel.attributes);
    } else if (op->kind == SG_OP_MEMOPS) {
        free(op->memops.items);
        sg_shared_event_unref(op->memops.event);
    } else if (op->kind == SG_OP_CONDITIONAL) {
        sg_conditional_free(op->conditional);
    } else if (op->kind == SG_OP_COPY) {
        free(op->copy.staged);
    } else if (op->kind == SG_OP_RECORD) {
        sg_record_unref(op->record);
    } else if (op->kind == SG_OP_GRAPH) {
        for (size_t i = 0; i < op->graph.record_count; i++) {
            sg_record_unref(op->graph.records[i]); /* NULL: of a node that was disabled */
        }
        free(op->graph.records);
        sg_graph_exec_unref(op->graph.exec);
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
    } else if (op->kind == SG_OP_MEMSET) {
        sg_count(SG_MEMSET_DONE, 0);
    } else if (op->kind == SG_OP_HOST || op->kind == SG_OP_CALLBACK) {
        sg_count(SG_HOST_CALLED, 0);
    } else if (op->kind == SG_OP_GRAPH) {
        sg_graph_count(op->graph.exec);
    }
}
