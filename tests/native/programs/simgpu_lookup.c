/* What cuGetProcAddress finds for which version and flag. */
#include "simgpu_check.h"

static void *find(const char *name, int version, cuuint64_t flags,
                  CUdriverProcAddressQueryResult want)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (want == CU_GET_PROC_ADDRESS_SUCCESS) {
        status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND; /* whatever it is, it must be written */
    }
    OK(cuGetProcAddress_v2(name, &function, version, flags, &status));
    if (status != want) {
        fprintf(stderr, "%s at %d: status %d\n", name, version, status);
    }
    CHECK(status == want);
    CHECK((function != NULL) == (want == CU_GET_PROC_ADDRESS_SUCCESS));
    return function;
}

#define FOUND CU_GET_PROC_ADDRESS_SUCCESS
#define IS(name, version, flags, symbol) CHECK(find(name, version, flags, FOUND) == (void *)symbol)

int main(void)
{
    void *function;
    OK(cuInit(0));
    IS("cuMemAlloc", 12000, 0, cuMemAlloc_v2);
    IS("cuCtxCreate", 3020, 0, cuCtxCreate_v2);
    IS("cuCtxCreate", 11040, 0, cuCtxCreate_v3);
    IS("cuCtxCreate", 13000, 0, cuCtxCreate_v4);
    IS("cuMemPrefetchAsync", 8000, 0, cuMemPrefetchAsync);
    IS("cuMemPrefetchAsync", 12020, 2, cuMemPrefetchAsync_v2_ptsz);
    IS("cuStreamGetCaptureInfo", 10010, 0, cuStreamGetCaptureInfo);
    IS("cuStreamGetCaptureInfo", 12020, 0, cuStreamGetCaptureInfo_v2);
    IS("cuStreamGetCaptureInfo", 12030, 2, cuStreamGetCaptureInfo_v3_ptsz);
    IS("cuGetProcAddress", 11030, 0, cuGetProcAddress);
    IS("cuGetProcAddress", 12000, 0, cuGetProcAddress_v2);
    IS("cuMemcpyHtoD", 12000, 0, cuMemcpyHtoD_v2);
    IS("cuMemcpyHtoD", 12000, 1, cuMemcpyHtoD_v2);
    IS("cuMemcpyHtoD", 12000, 2, cuMemcpyHtoD_v2_ptds);
    IS("cuLaunchKernel", 4000, 0, cuLaunchKernel);
    IS("cuLaunchKernel", 7000, 2, cuLaunchKernel_ptsz);
    IS("cuEventRecord", 12000, 2, cuEventRecord_ptsz);
    IS("cuEventCreate", 12000, 2, cuEventCreate); /* has no flavours */
    find("cuMemCreate", 10010, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    find("cuNotThere", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    find("cuMemAlloc_v2", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNotThere", &function, 12000, 0));
    puts("ok");
    return 0;
}
