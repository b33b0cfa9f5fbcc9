/* Stream-ordered allocation. There are no pools (the attribute says so); what programs call without asking
 * takes memory at once and gives it back in the stream's order. */
#include "simgpu/capture.h"
#include "simgpu/memory.h"
#include "simgpu/stream.h"

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (stream->capture) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return sg_memory_alloc(stream->context, out, bytes);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    (void)out, (void)bytes, (void)pool, (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!address) {
        return CUDA_SUCCESS;
    }
    if (stream->capture) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    sg_map_lock();
    struct sg_range *range = sg_map_find(address);
    int ours = range && range->base == address && range->kind == SG_ALLOCATED;
    sg_map_unlock();
    if (!ours) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(SG_OP_FREE);
    op->address = address;
    return sg_submit(stream, op);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    (void)pool, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    (void)pool, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    (void)pool, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    (void)pool, (void)props;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    (void)pool;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    (void)pool, (void)keep;
    return CUDA_ERROR_NOT_SUPPORTED;
}
