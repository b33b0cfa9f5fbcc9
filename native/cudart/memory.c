/* Memory: allocated, freed, registered, shared between processes, and asked about. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(cudaMalloc, void **out, size_t bytes)
{
    CUdeviceptr address = 0;
    if (!out) {
        return rt_end(cudaErrorInvalidValue);
    }
    *out = NULL;
    RT_TRY(rt_context());
    if (bytes) {
        RT_TRY(rt_driver.cuMemAlloc(&address, bytes));
    }
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(cudaMallocPitch, void **out, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr address = 0;
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuMemAllocPitch(&address, pitch, width, height, 4));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(cudaMallocManaged, void **out, size_t bytes, unsigned int flags)
{
    CUdeviceptr address = 0;
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuMemAllocManaged(&address, bytes, flags));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(cudaFree, void *pointer)
{
    RT_TRY(rt_context()); /* cudaFree(0) is how many programs start the runtime */
    return rt_end(pointer ? (cudaError_t)rt_driver.cuMemFree(rt_address(pointer)) : cudaSuccess);
}

RT_CALL(cudaHostAlloc, void **out, size_t bytes, unsigned int flags)
{
    *out = NULL;
    RT_TRY(rt_context());
    return rt_end(bytes ? (cudaError_t)rt_driver.cuMemHostAlloc(out, bytes, flags) : cudaSuccess);
}

RT_CALL(cudaMallocHost, void **out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }

RT_CALL(cudaFreeHost, void *pointer)
{
    RT_TRY(rt_context());
    return rt_end(pointer ? (cudaError_t)rt_driver.cuMemFreeHost(pointer) : cudaSuccess);
}

RT_CALL(cudaHostRegister, void *pointer, size_t bytes, unsigned int flags)
{
    RT_PASS(rt_driver.cuMemHostRegister(pointer, bytes, flags));
}

RT_CALL(cudaHostUnregister, void *pointer) { RT_PASS(rt_driver.cuMemHostUnregister(pointer)); }

RT_CALL(cudaHostGetDevicePointer, void **out, void *host, unsigned int flags)
{
    CUdeviceptr address = 0;
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuMemHostGetDevicePointer(&address, host, flags));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(cudaHostGetFlags, unsigned int *flags, void *host)
{
    RT_PASS(rt_driver.cuMemHostGetFlags(flags, host));
}

RT_CALL(cudaMemGetInfo, size_t *free, size_t *total)
{
    RT_PASS(rt_driver.cuMemGetInfo(free, total));
}

RT_CALL(cudaPointerGetAttributes, cudaPointerAttributes *out, const void *pointer)
{
    unsigned int type = 0, managed = 0;
    int device = CU_DEVICE_INVALID;
    uint64_t on_device = 0, on_host = 0;
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &managed, &device, &on_device, &on_host};
    if (!out) {
        return rt_end(cudaErrorInvalidValue);
    }
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuPointerGetAttributes(5, asked, answers, rt_address(pointer)));
    *out = (cudaPointerAttributes){.device = device};
    if (!type) {
        out->type = cudaMemoryTypeUnregistered;
        out->hostPointer = (void *)(uintptr_t)pointer;
        return cudaSuccess;
    }
    out->type = managed                        ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                               : cudaMemoryTypeHost;
    out->devicePointer = (void *)(uintptr_t)on_device;
    out->hostPointer = (void *)(uintptr_t)on_host;
    return cudaSuccess;
}

RT_CALL(cudaMemAdvise, const void *pointer, size_t bytes, CUmem_advise advice, int device)
{
    RT_PASS(rt_driver.cuMemAdvise(rt_address(pointer), bytes, advice, device));
}

/* ---- between processes ---- */

RT_CALL(cudaIpcGetMemHandle, CUipcMemHandle *handle, void *pointer)
{
    RT_PASS(rt_driver.cuIpcGetMemHandle(handle, rt_address(pointer)));
}

RT_CALL(cudaIpcOpenMemHandle, void **out, CUipcMemHandle handle, unsigned int flags)
{
    CUdeviceptr address = 0;
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuIpcOpenMemHandle(&address, handle, flags));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(cudaIpcCloseMemHandle, void *pointer)
{
    RT_PASS(rt_driver.cuIpcCloseMemHandle(rt_address(pointer)));
}

RT_CALL(cudaIpcGetEventHandle, CUipcEventHandle *handle, CUevent event)
{
    RT_PASS(rt_driver.cuIpcGetEventHandle(handle, event));
}

RT_CALL(cudaIpcOpenEventHandle, CUevent *event, CUipcEventHandle handle)
{
    RT_PASS(rt_driver.cuIpcOpenEventHandle(event, handle));
}
