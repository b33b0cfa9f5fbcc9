/* Code that the program loads itself (13 has it in the runtime): libraries, their kernels and variables. */
#include "cudart/driver.h"
#include "cudart/registration.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(cudaLibraryLoadData, CUlibrary *library, const void *code, CUjit_option *jit,
        void **jit_values, unsigned int jits, CUlibraryOption *options, void **values,
        unsigned int count)
{
    RT_PASS(
        rt_driver.cuLibraryLoadData(library, code, jit, jit_values, jits, options, values, count));
}

RT_CALL(cudaLibraryLoadFromFile, CUlibrary *library, const char *path, CUjit_option *jit,
        void **jit_values, unsigned int jits, CUlibraryOption *options, void **values,
        unsigned int count)
{
    RT_PASS(rt_driver.cuLibraryLoadFromFile(library, path, jit, jit_values, jits, options, values,
                                            count));
}

RT_CALL(cudaLibraryUnload, CUlibrary library) { RT_PASS(rt_driver.cuLibraryUnload(library)); }

RT_CALL(cudaLibraryGetKernel, CUkernel *kernel, CUlibrary library, const char *name)
{
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuLibraryGetKernel(kernel, library, name));
    return rt_function_add(*kernel, NULL, *kernel) ? cudaSuccess
                                                   : rt_end(cudaErrorMemoryAllocation);
}

RT_CALL(cudaLibraryGetKernelCount, unsigned int *count, CUlibrary library)
{
    RT_PASS(rt_driver.cuLibraryGetKernelCount(count, library));
}

RT_CALL(cudaLibraryGetGlobal, void **address, size_t *bytes, CUlibrary library, const char *name)
{
    RT_PASS(rt_driver.cuLibraryGetGlobal((CUdeviceptr *)address, bytes, library, name));
}

RT_CALL(cudaLibraryGetManaged, void **address, size_t *bytes, CUlibrary library, const char *name)
{
    RT_PASS(rt_driver.cuLibraryGetManaged((CUdeviceptr *)address, bytes, library, name));
}

RT_CALL(cudaLibraryGetUnifiedFunction, void **function, CUlibrary library, const char *name)
{
    (void)function, (void)library, (void)name;
    return rt_end(cudaErrorNotSupported); /* properties say that there are none */
}

RT_CALL(cudaKernelSetAttributeForDevice, CUkernel kernel, CUfunction_attribute attribute, int value,
        int device)
{
    (void)attribute, (void)value, (void)device;
    return rt_end(rt_function(kernel) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

/* The handle of a kernel of the program itself is the address of its stand-in there. */
RT_CALL(__cudaGetKernel, CUkernel *kernel, const void *host)
{
    *kernel = (CUkernel)(uintptr_t)host;
    return rt_end(rt_function(host) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
