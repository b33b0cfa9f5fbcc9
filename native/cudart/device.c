/* Devices: which there are, and what can be asked of and set for them. */
#include "cudart/driver.h"
#include "cudart/registration.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(cudaGetDeviceCount, int *count)
{
    if (!count) {
        return rt_end(cudaErrorInvalidValue);
    }
    *count = 0;
    RT_TRY(rt_start());
    RT_TRY(rt_driver.cuDeviceGetCount(count));
    return rt_end(*count ? cudaSuccess : cudaErrorNoDevice);
}

RT_CALL(cudaDriverGetVersion, int *version)
{
    rt_start(); /* the version is known also where there is no device */
    *version = 0;
    return rt_driver.cuDriverGetVersion ? rt_end((cudaError_t)rt_driver.cuDriverGetVersion(version))
                                        : cudaSuccess;
}

RT_CALL(cudaRuntimeGetVersion, int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

RT_CALL(cudaDeviceGetAttribute, int *value, CUdevice_attribute attribute, int device)
{
    CUdevice handle;
    RT_TRY(rt_start());
    RT_TRY(rt_driver.cuDeviceGet(&handle, device));
    return rt_end((cudaError_t)rt_driver.cuDeviceGetAttribute(value, attribute, handle));
}

RT_CALL(cudaDeviceGetPCIBusId, char *id, int length, int device)
{
    CUdevice handle;
    RT_TRY(rt_start());
    RT_TRY(rt_driver.cuDeviceGet(&handle, device));
    return rt_end((cudaError_t)rt_driver.cuDeviceGetPCIBusId(id, length, handle));
}

RT_CALL(cudaDeviceGetByPCIBusId, int *device, const char *id)
{
    RT_TRY(rt_start());
    return rt_end((cudaError_t)rt_driver.cuDeviceGetByPCIBusId(device, id));
}

RT_CALL(cudaDeviceGetP2PAttribute, int *value, CUdevice_P2PAttribute attribute, int from, int to)
{
    RT_TRY(rt_start());
    return rt_end((cudaError_t)rt_driver.cuDeviceGetP2PAttribute(value, attribute, from, to));
}

RT_CALL(cudaDeviceCanAccessPeer, int *can, int device, int peer)
{
    RT_TRY(rt_start());
    return rt_end((cudaError_t)rt_driver.cuDeviceCanAccessPeer(can, device, peer));
}

RT_CALL(cudaDeviceEnablePeerAccess, int peer, unsigned int flags)
{
    CUcontext context;
    RT_TRY(rt_primary(peer, &context));
    RT_PASS(rt_driver.cuCtxEnablePeerAccess(context, flags));
}

RT_CALL(cudaDeviceDisablePeerAccess, int peer)
{
    CUcontext context;
    RT_TRY(rt_primary(peer, &context));
    RT_PASS(rt_driver.cuCtxDisablePeerAccess(context));
}

RT_CALL(cudaDeviceSynchronize, void) { RT_PASS(rt_driver.cuCtxSynchronize()); }

RT_CALL(cudaDeviceGetLimit, size_t *value, CUlimit limit)
{
    RT_PASS(rt_driver.cuCtxGetLimit(value, limit));
}

RT_CALL(cudaDeviceSetLimit, CUlimit limit, size_t value)
{
    RT_PASS(rt_driver.cuCtxSetLimit(limit, value));
}

RT_CALL(cudaDeviceGetStreamPriorityRange, int *least, int *greatest)
{
    RT_PASS(rt_driver.cuCtxGetStreamPriorityRange(least, greatest));
}

RT_CALL(cudaGetDeviceFlags, unsigned int *flags)
{
    int device, active;
    CUdevice handle;
    RT_TRY(rt_device(&device));
    RT_TRY(rt_driver.cuDeviceGet(&handle, device));
    return rt_end((cudaError_t)rt_driver.cuDevicePrimaryCtxGetState(handle, flags, &active));
}

RT_CALL(cudaSetDeviceFlags, unsigned int flags)
{
    int device;
    CUdevice handle;
    RT_TRY(rt_device(&device));
    RT_TRY(rt_driver.cuDeviceGet(&handle, device));
    return rt_end((cudaError_t)rt_driver.cuDevicePrimaryCtxSetFlags(handle, flags));
}

/* Marks for profilers: there is none. */
RT_CALL(cudaProfilerStart, void) { return cudaSuccess; }
RT_CALL(cudaProfilerStop, void) { return cudaSuccess; }

RT_CALL(cudaDeviceReset, void)
{
    int device;
    RT_TRY(rt_device(&device));
    rt_symbols_reset(device);
    return rt_end((cudaError_t)rt_primary_reset(device));
}
