/* What belongs to a thread: its last error, its device, its context. */
#include "cudart/thread.h"

#include <pthread.h>

#include "cudart/driver.h"
#include "cudart/runtime.h"

static __thread cudaError_t last_error;
static __thread int chosen_device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[RT_DEVICES_MAX];

cudaError_t rt_end(cudaError_t result)
{
    if (result) {
        last_error = result;
    }
    return result;
}

RT_CALL(cudaGetLastError, void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

RT_CALL(cudaPeekAtLastError, void) { return last_error; }

cudaError_t rt_primary(int device, CUcontext *context)
{
    cudaError_t result = rt_start();
    int count = 0;
    if (!result) {
        result = (cudaError_t)rt_driver.cuDeviceGetCount(&count);
    }
    if (result) {
        return result;
    }
    if (device < 0 || device >= count || device >= RT_DEVICES_MAX) {
        return cudaErrorInvalidDevice;
    }
    pthread_mutex_lock(&lock);
    CUdevice handle;
    if (!primary[device]) {
        result = (cudaError_t)rt_driver.cuDeviceGet(&handle, device);
        result = result ? result
                        : (cudaError_t)rt_driver.cuDevicePrimaryCtxRetain(&primary[device], handle);
    }
    *context = primary[device];
    pthread_mutex_unlock(&lock);
    return result;
}

cudaError_t rt_context(void)
{
    CUcontext context = NULL;
    cudaError_t result = rt_start();
    if (result) {
        return result;
    }
    /* The program may use the driver as well, and then its choice of a context counts. */
    result = (cudaError_t)rt_driver.cuCtxGetCurrent(&context);
    if (result || context) {
        return result;
    }
    result = rt_primary(chosen_device, &context);
    return result ? result : (cudaError_t)rt_driver.cuCtxSetCurrent(context);
}

cudaError_t rt_device(int *device)
{
    CUcontext context = NULL;
    cudaError_t result = rt_start();
    if (result) {
        return result;
    }
    if (!rt_driver.cuCtxGetCurrent(&context) && context) {
        return (cudaError_t)rt_driver.cuCtxGetDevice(device);
    }
    *device = chosen_device;
    return cudaSuccess;
}

RT_CALL(cudaGetDevice, int *device)
{
    return rt_end(device ? rt_device(device) : cudaErrorInvalidValue);
}

RT_CALL(cudaSetDevice, int device)
{
    CUcontext context;
    RT_TRY(rt_primary(device, &context));
    chosen_device = device;
    return rt_end((cudaError_t)rt_driver.cuCtxSetCurrent(context));
}

RT_CALL(cudaInitDevice, int device, unsigned int device_flags, unsigned int flags)
{
    (void)device_flags, (void)flags;
    CUcontext context;
    return rt_end(rt_primary(device, &context));
}

CUresult rt_primary_reset(int device)
{
    CUdevice handle;
    CUresult result = rt_driver.cuDeviceGet(&handle, device);
    if (result) {
        return result;
    }
    pthread_mutex_lock(&lock);
    result = rt_driver.cuDevicePrimaryCtxReset(handle);
    primary[device] = NULL;
    pthread_mutex_unlock(&lock);
    rt_driver.cuCtxSetCurrent(NULL);
    return result;
}
