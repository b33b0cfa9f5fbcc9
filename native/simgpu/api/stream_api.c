/* The entry points about streams. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/capture/capture.h"
#include "simgpu/capture/submit.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/mem/pool_memory.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    SG_CONTEXT(context);
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    CUstream stream = sg_stream_new(context, flags, priority);
    if (!stream) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_handle_add(stream, SG_STREAM);
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    SG_ENTER();
    if (!sg_handle_remove(stream, SG_STREAM)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (stream->capture) {
        sg_capture_abandon(stream);
    }
    if (!stream->context->destroyed) {
        sg_stream_close(stream);
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

CUresult cuStreamSynchronize(CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (stream->capture) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    SG_TRY(sg_capture_forbids_legacy(stream));
    if (stream->legacy) { /* waits for all blocking streams: empty work does that */
        SG_TRY(sg_submit_and_wait(stream, sg_op_new(&sg_kind_nothing)));
        sg_pools_synchronised();
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&stream->context->lock);
    uint64_t number = stream->submitted;
    pthread_mutex_unlock(&stream->context->lock);
    sg_stream_ref(stream);
    sg_stream_wait(stream, number);
    CUresult result = stream->context->sticky_error;
    sg_stream_unref(stream);
    sg_pools_synchronised();
    return result;
}

CUresult cuStreamQuery(CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (stream->capture) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    SG_TRY(sg_capture_forbids_legacy(stream));
    pthread_mutex_lock(&stream->context->lock);
    int done = stream->completed >= stream->submitted;
    for (CUstream other = stream->context->streams; stream->legacy && other; other = other->next) {
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && other->completed < other->submitted) {
            done = 0;
        }
    }
    pthread_mutex_unlock(&stream->context->lock);
    return stream->context->sticky_error ? stream->context->sticky_error
           : done                        ? CUDA_SUCCESS
                                         : CUDA_ERROR_NOT_READY;
}

/* Finds the stream of a query and checks that it has a place for the answer. */
static CUresult found_for(CUstream handle, CUstream *stream, const void *answer)
{
    SG_TRY(sg_stream_of(handle, stream));
    return answer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    CUstream stream;
    SG_TRY(found_for(handle, &stream, priority));
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    CUstream stream;
    SG_TRY(found_for(handle, &stream, flags));
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUstream stream;
    SG_TRY(found_for(handle, &stream, id));
    *id = stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *out)
{
    CUstream stream;
    SG_TRY(found_for(handle, &stream, out));
    *out = stream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *out)
{
    CUstream stream;
    SG_TRY(found_for(handle, &stream, out));
    *out = sg_ordinal_of(stream->context->gpu);
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    SG_TRY(sg_stream_of(dst, &dst));
    SG_TRY(sg_stream_of(src, &src));
    return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    CUstream stream;
    SG_TRY(found_for(handle, &stream, value));
    memset(value, 0, sizeof *value);
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        value->priority = stream->priority;
    } else if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
        value->syncPolicy = CU_SYNC_POLICY_AUTO;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                              const CUstreamAttrValue *value)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        stream->priority = value->priority;
    }
    return CUDA_SUCCESS;
}

/* ---- functions of the host in a stream ---- */

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn call, void *data)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!call) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(&sg_kind_host);
    op->host.call = call;
    op->host.data = data;
    return sg_submit(stream, op);
}

CUresult cuLaunchHostFunc_v2(CUstream handle, CUhostFn call, void *data, unsigned int sync_mode)
{
    (void)sync_mode;
    return cuLaunchHostFunc(handle, call, data);
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback call, void *data, unsigned int flags)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!call || flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->capture) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    struct sg_op *op = sg_op_new(&sg_kind_callback);
    op->callback.call = call;
    op->callback.data = data;
    op->callback.stream = handle;
    return sg_submit(stream, op);
}
