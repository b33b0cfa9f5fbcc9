/* The entry points about events. */
#include <stdlib.h>

#include "simgpu/base/handles.h"
#include "simgpu/capture/capture.h"
#include "simgpu/capture/submit.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/memops.h"
#include "simgpu/exec/shared_event.h"
#include "simgpu/graph/graph.h"
#include "simgpu/mem/pool_memory.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/event.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

static CUresult find(CUevent event)
{
    SG_ENTER();
    return sg_handle_is(event, SG_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult make(CUcontext context, unsigned flags, struct sg_shared_event *shared,
                     CUevent *out)
{
    CUevent event = calloc(1, sizeof *event);
    if (!event) {
        sg_shared_event_unref(shared);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->context = context;
    event->flags = flags;
    event->shared = shared;
    pthread_mutex_init(&event->lock, NULL);
    sg_handle_add(event, SG_EVENT);
    *out = event;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    SG_CONTEXT(context);
    if (!out || flags & ~7u ||
        (flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) == CU_EVENT_INTERPROCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_shared_event *shared = NULL;
    if (flags & CU_EVENT_INTERPROCESS) {
        shared = sg_shared_event_new();
        if (!shared) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return make(context, flags, shared, out);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    SG_TRY(find(event));
    if (!handle) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!event->shared) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sg_shared_event_handle(event->shared, handle);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    SG_CONTEXT(context);
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_shared_event *shared = sg_shared_event_open(&handle);
    return shared ? make(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, shared, out)
                  : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    SG_ENTER();
    if (!sg_handle_remove(event, SG_EVENT)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sg_record_unref(event->record);
    sg_shared_event_unref(event->shared);
    pthread_mutex_destroy(&event->lock);
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

/* Captures an external record or wait as a node: it is carried out when the graph runs. */
static CUresult capture_node(CUstream stream, CUevent event, const struct sg_op_kind *kind)
{
    struct sg_op *op = sg_op_new(kind);
    op->event = event;
    return sg_submit(stream, op);
}

static CUresult record_shared(struct sg_shared_event *event, CUstream stream)
{
    uint64_t number = sg_shared_event_next(event);
    return sg_submit(stream, sg_memops_of_event(event, CU_STREAM_MEM_OP_WRITE_VALUE_64, number));
}

/* Makes later work of the stream wait for all records of the event so far. */
static CUresult hold_shared(struct sg_shared_event *event, CUstream stream)
{
    uint64_t number = sg_shared_event_recorded(event);
    return sg_shared_event_done(event)
               ? CUDA_SUCCESS
               : sg_submit(stream,
                           sg_memops_of_event(event, CU_STREAM_MEM_OP_WAIT_VALUE_64, number));
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    return cuEventRecordWithFlags(event, handle, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
    CUstream stream;
    SG_TRY(find(event));
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_stream_of(handle, &stream));
    if (stream->context->gpu != event->context->gpu) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    SG_TRY(sg_capture_check(stream));
    if (event->shared) {
        return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                               : record_shared(event->shared, stream);
    }
    if (stream->capture && flags & CU_EVENT_RECORD_EXTERNAL) {
        return capture_node(stream, event, &sg_kind_event_record);
    }
    struct sg_record *record = sg_event_new_record(event, stream);
    if (!record) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (stream->capture) {
        return sg_capture_record(stream, record); /* takes the reference */
    }
    struct sg_op *op = sg_op_new(&sg_kind_record);
    op->record = record;
    return sg_submit(stream, op);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    CUstream stream;
    SG_TRY(find(event));
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_stream_of(handle, &stream));
    if (event->shared) {
        return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                               : hold_shared(event->shared, stream);
    }
    if (stream->capture && flags & CU_EVENT_WAIT_EXTERNAL) {
        SG_TRY(sg_capture_check(stream));
        return capture_node(stream, event, &sg_kind_event_wait);
    }
    struct sg_record *record = sg_event_record_of(event);
    CUresult result = CUDA_SUCCESS;
    if (!record) {
        return CUDA_SUCCESS; /* an event that was never recorded is done */
    }
    if (stream->capture || record->capture) {
        result = sg_capture_wait(stream, record);
    } else if (record->stream != stream && !sg_stream_done(record->stream, record->number)) {
        struct sg_op *op = sg_op_new(&sg_kind_wait);
        sg_op_wait_for(op, record->stream, record->number);
        result = sg_submit(stream, op);
    }
    sg_record_unref(record);
    return result;
}

CUresult cuCtxRecordEvent(CUcontext context, CUevent event)
{
    (void)context, (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuCtxWaitEvent(CUcontext context, CUevent event)
{
    (void)context, (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult ask(CUevent event, int wait)
{
    SG_TRY(find(event));
    if (event->shared) {
        if (wait) {
            sg_shared_event_wait(event->shared);
        }
        SG_TRY(event->context->sticky_error);
        return sg_shared_event_done(event->shared) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    }
    struct sg_record *record = sg_event_record_of(event);
    if (!record) {
        SG_TRY(sg_capture_forbids());
        return event->context->sticky_error;
    }
    CUresult result = sg_capture_forbids_query(record->capture);
    if (result) {
        sg_record_unref(record);
        return result;
    }
    if (wait && record->number != UINT64_MAX) {
        sg_record_wait(record);
        sg_pools_synchronised();
    } else if (!sg_stream_done(record->stream, record->number)) {
        result = CUDA_ERROR_NOT_READY;
    }
    if (record->stream->context->sticky_error) {
        result = record->stream->context->sticky_error;
    }
    sg_record_unref(record);
    return result;
}

CUresult cuEventQuery(CUevent event) { return ask(event, 0); }

CUresult cuEventSynchronize(CUevent event) { return ask(event, 1); }

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    SG_TRY(find(start));
    SG_TRY(find(end));
    if (!ms) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_record *from = sg_event_record_of(start), *to = sg_event_record_of(end);
    CUresult result = CUDA_SUCCESS;
    if (!from || !to || !from->timed || !to->timed) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (from->capture || to->capture) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else if (!sg_stream_done(from->stream, from->number) ||
               !sg_stream_done(to->stream, to->number)) {
        result = CUDA_ERROR_NOT_READY;
    } else {
        *ms = (float)((double)((int64_t)to->time_ns - (int64_t)from->time_ns) / 1e6);
    }
    sg_record_unref(from);
    sg_record_unref(to);
    return result;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}
