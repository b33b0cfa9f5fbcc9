/* Streams and events: made, ended, waited for. What is done in a stream stands in streams/. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(cudaStreamCreate, CUstream *stream)
{
    RT_PASS(rt_driver.cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

RT_CALL(cudaStreamCreateWithFlags, CUstream *stream, unsigned int flags)
{
    RT_PASS(rt_driver.cuStreamCreate(stream, flags));
}

RT_CALL(cudaStreamCreateWithPriority, CUstream *stream, unsigned int flags, int priority)
{
    RT_PASS(rt_driver.cuStreamCreateWithPriority(stream, flags, priority));
}

RT_CALL(cudaStreamDestroy, CUstream stream) { RT_PASS(rt_driver.cuStreamDestroy(stream)); }

RT_CALL(cudaThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    RT_TRY(rt_start());
    return rt_end((cudaError_t)rt_driver.cuThreadExchangeStreamCaptureMode(mode));
}

RT_CALL(cudaEventCreateWithFlags, CUevent *event, unsigned int flags)
{
    RT_PASS(rt_driver.cuEventCreate(event, flags));
}

RT_CALL(cudaEventCreate, CUevent *event) { return cudaEventCreateWithFlags(event, 0); }

RT_CALL(cudaEventDestroy, CUevent event) { RT_PASS(rt_driver.cuEventDestroy(event)); }

RT_CALL(cudaEventQuery, CUevent event) { RT_PASS(rt_driver.cuEventQuery(event)); }

RT_CALL(cudaEventSynchronize, CUevent event) { RT_PASS(rt_driver.cuEventSynchronize(event)); }

RT_CALL(cudaEventElapsedTime, float *ms, CUevent start, CUevent end)
{
    RT_PASS(rt_driver.cuEventElapsedTime(ms, start, end));
}
