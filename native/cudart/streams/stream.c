/* What is done in a stream: waiting, recording, calling back, allocating. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(RT_SZ(cudaStreamGetPriority), CUstream stream, int *priority)
{
    RT_PASS(rt_stream_driver.cuStreamGetPriority(stream, priority));
}

RT_CALL(RT_SZ(cudaStreamGetFlags), CUstream stream, unsigned int *flags)
{
    RT_PASS(rt_stream_driver.cuStreamGetFlags(stream, flags));
}

RT_CALL(RT_SZ(cudaStreamGetId), CUstream stream, unsigned long long *id)
{
    RT_PASS(rt_stream_driver.cuStreamGetId(stream, id));
}

RT_CALL(RT_SZ(cudaStreamSynchronize), CUstream stream)
{
    RT_PASS(rt_stream_driver.cuStreamSynchronize(stream));
}

RT_CALL(RT_SZ(cudaStreamQuery), CUstream stream)
{
    RT_PASS(rt_stream_driver.cuStreamQuery(stream));
}

RT_CALL(RT_SZ(cudaStreamWaitEvent), CUstream stream, CUevent event, unsigned int flags)
{
    RT_PASS(rt_stream_driver.cuStreamWaitEvent(stream, event, flags));
}

RT_CALL(RT_SZ(cudaStreamAddCallback), CUstream stream, CUstreamCallback callback, void *data,
        unsigned int flags)
{
    RT_PASS(rt_stream_driver.cuStreamAddCallback(stream, callback, data, flags));
}

RT_CALL(RT_SZ(cudaStreamAttachMemAsync), CUstream stream, void *pointer, size_t bytes,
        unsigned int flags)
{
    RT_PASS(rt_stream_driver.cuStreamAttachMemAsync(stream, rt_address(pointer), bytes, flags));
}

RT_CALL(RT_SZ(cudaEventRecord), CUevent event, CUstream stream)
{
    RT_PASS(rt_stream_driver.cuEventRecord(event, stream));
}

RT_CALL(RT_SZ(cudaEventRecordWithFlags), CUevent event, CUstream stream, unsigned int flags)
{
    RT_PASS(rt_stream_driver.cuEventRecordWithFlags(event, stream, flags));
}

/* ---- memory in a stream's order ---- */

RT_CALL(RT_SZ(cudaMallocAsync), void **out, size_t bytes, CUstream stream)
{
    CUdeviceptr address = 0;
    RT_TRY(rt_context());
    RT_TRY(rt_stream_driver.cuMemAllocAsync(&address, bytes, stream));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(RT_SZ(cudaMallocFromPoolAsync), void **out, size_t bytes, CUmemoryPool pool,
        CUstream stream)
{
    CUdeviceptr address = 0;
    RT_TRY(rt_context());
    RT_TRY(rt_stream_driver.cuMemAllocFromPoolAsync(&address, bytes, pool, stream));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(RT_SZ(cudaFreeAsync), void *pointer, CUstream stream)
{
    RT_PASS(rt_stream_driver.cuMemFreeAsync(rt_address(pointer), stream));
}

#if CUDART_VERSION < 13000
RT_CALL(RT_SZ(cudaMemPrefetchAsync), const void *pointer, size_t bytes, int device, CUstream stream)
{
    RT_PASS(rt_stream_driver.cuMemPrefetchAsync(rt_address(pointer), bytes, device, stream));
}
#endif
