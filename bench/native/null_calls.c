/* The calls of the null driver that have something to answer. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda_calls.h"

CUresult cuDriverGetVersion(int *driver_version)
{
    *driver_version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    memcpy((void *)(size_t)dst, src, bytes);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult *symbol_status)
{
    char name[128];
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    (void)cuda_version;
    (void)flags;
    (void)symbol_status;
    snprintf(name, sizeof(name), "%s_v2", symbol);
    *function = self ? dlsym(self, name) : NULL;
    if (self && !*function) {
        *function = dlsym(self, symbol);
    }
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
