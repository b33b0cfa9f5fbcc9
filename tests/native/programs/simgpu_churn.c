/* Allocates and frees without end, in every way there is, and says so now and then. To be killed in the middle of it. */
#include <stdint.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)

int main(void)
{
    begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUdeviceptr at, managed;
    uint64_t n = 8 * MIB / 8, stride = 2 * MIB / 8;
    OK(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
    for (unsigned i = 0;; i++) {
        CUdeviceptr small, large;
        CUmemGenericAllocationHandle chunk;
        if (cuMemAlloc_v2(&small, 1000) == CUDA_SUCCESS) {
            OK(cuMemFree_v2(small));
        }
        if (cuMemAlloc_v2(&large, 5 * MIB) == CUDA_SUCCESS) {
            OK(cuMemFree_v2(large));
        }
        if (cuMemCreate(&chunk, 8 * MIB, &prop, 0) == CUDA_SUCCESS) {
            OK(cuMemMap(at, 8 * MIB, 0, chunk, 0));
            OK(cuMemUnmap(at, 8 * MIB));
            OK(cuMemRelease(chunk));
        }
        OK(cuMemAllocManaged(&managed, 8 * MIB, CU_MEM_ATTACH_GLOBAL));
        LAUNCH(kernel("touch_u64"), NULL, &managed, &n, &stride);
        OK(cuMemFree_v2(managed));
        if (i % 16 == 0) {
            puts("on");
            fflush(stdout);
        }
    }
}
