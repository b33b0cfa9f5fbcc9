#include "simgpu/stream/event.h"

#include <stdlib.h>

#include "simgpu/stream/capture_rules.h"

struct sg_record *sg_event_record_of(CUevent event)
{
    pthread_mutex_lock(&event->lock);
    struct sg_record *record = event->record;
    if (record) {
        __atomic_add_fetch(&record->refs, 1, __ATOMIC_ACQ_REL);
    }
    pthread_mutex_unlock(&event->lock);
    return record;
}

struct sg_record *sg_event_new_record(CUevent event, CUstream stream)
{
    struct sg_record *record = calloc(1, sizeof *record), *old;
    if (!record) {
        return NULL;
    }
    record->refs = 2; /* the event's and the caller's */
    record->stream = stream;
    record->number = UINT64_MAX; /* until it is submitted, it is not done */
    record->timed = !(event->flags & CU_EVENT_DISABLE_TIMING);
    sg_stream_ref(stream);
    pthread_mutex_lock(&event->lock);
    old = event->record;
    event->record = record;
    pthread_mutex_unlock(&event->lock);
    sg_record_unref(old);
    return record;
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

/* ---- as work ---- */

static void execute(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    (void)stream;
    op->record->time_ns = ready_ns; /* the delay of this thread is not the GPU's */
}

static void copy(struct sg_op *op) { __atomic_add_fetch(&op->record->refs, 1, __ATOMIC_ACQ_REL); }

static void release(struct sg_op *op) { sg_record_unref(op->record); }

static void submitted(struct sg_op *op) { op->record->number = op->number; }

const struct sg_op_kind sg_kind_record = {.name = "record",
                                          .runs_after_error = 1,
                                          .execute = execute,
                                          .copy = copy,
                                          .release = release,
                                          .submitted = submitted};
