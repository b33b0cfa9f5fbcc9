/* Images that are none, names that are not there, parameters both ways, attributes and names. */
#include <stdint.h>

#include "simgpu_check.h"

int main(void)
{
    CUmodule module;
    CUfunction function;
    CUlibrary library;
    CUkernel handle;
    const char *name;
    size_t offset, size;
    unsigned count;
    int value;
    begin();
    EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "garbage and more garbage"));
    EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
           cuModuleLoadData(&module, "\n.version 8.0\n.target sm_80\n"));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/no/such/file"));
    OK(cuModuleLoad(&module, getenv("KERNELS")));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "no_such_kernel"));
    OK(cuModuleGetFunction(&function, module, "fill_u64"));
    OK(cuModuleGetFunctionCount(&count, module));
    CHECK(count == 17);
    OK(cuFuncGetName(&name, function));
    CHECK(strcmp(name, "fill_u64") == 0);
    OK(cuFuncGetParamInfo(function, 2, &offset, &size));
    CHECK(offset == 16 && size == 8);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 3, &offset, &size));

    /* Parameters as a buffer, and a library's kernel in place of a function. */
    struct {
        CUdeviceptr p;
        uint64_t n, seed;
    } packed = {0, 4, 1};
    uint64_t words[4] = {0}, again[4] = {0};
    OK(cuMemAlloc_v2(&packed.p, 32));
    size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    OK(cuMemcpyDtoH_v2(words, packed.p, 32));
    CHECK(words[0] == 0x910a2dec89025cc1ull); /* splitmix64(1) */
    OK(cuMemsetD8_v2(packed.p, 0, 32));
    OK(cuLibraryLoadFromFile(&library, getenv("KERNELS"), NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&handle, library, "fill_u64"));
    LAUNCH((CUfunction)(void *)handle, NULL, &packed.p, &packed.n, &packed.seed);
    OK(cuMemcpyDtoH_v2(again, packed.p, 32));
    CHECK(memcmp(words, again, 32) == 0);
    size = 8;
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, extra));
    EXPECT(CUDA_ERROR_INVALID_HANDLE,
           cuLaunchKernel((CUfunction)(void *)module, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuLibraryUnload(library));
    OK(cuModuleUnload(module));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "nop"));

    /* Every attribute that a runtime reads at its start has an answer. */
    for (int i = 1; i <= 145; i++) {
        OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)i, 0));
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 100000, 0));

    /* Contexts: a stack for each thread, and the primary one counted. */
    CUcontext own, primary, now;
    unsigned flags;
    OK(cuCtxGetCurrent(&primary));
    OK(cuCtxCreate_v4(&own, NULL, 0, 0));
    OK(cuCtxGetCurrent(&now));
    CHECK(now == own);
    OK(cuCtxDestroy_v2(own));
    OK(cuCtxGetCurrent(&now));
    CHECK(now == primary);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(own));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &value));
    CHECK(value == 1);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &value));
    CHECK(value == 0);
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    puts("ok");
    return 0;
}
