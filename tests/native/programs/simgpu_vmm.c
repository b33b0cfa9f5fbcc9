/* The rules of virtual memory, and that the bytes follow the chunk and not the address. */
#include <stdint.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)

int main(void)
{
    CUcontext context = begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle one, two, same;
    CUdeviceptr at, other, p;
    size_t granularity, before, after, total, size;
    unsigned long long flags;
    uint64_t value = 0;
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(granularity == 2 * MIB);

    /* Reserving takes no memory; creating does. */
    OK(cuMemGetInfo_v2(&before, &total));
    OK(cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0));
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&other, MIB, 0, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&one, MIB, &prop, 0));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&one, 1024 * MIB, &prop, 0));
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&one, 2 * MIB, &prop, 0));
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemCreate(&one, 4 * MIB, &prop, 0));
    OK(cuMemCreate(&two, 2 * MIB, &prop, 0));
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before - after == 6 * MIB);

    /* Mapping. */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(at + MIB, 2 * MIB, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(at + 64 * MIB, 2 * MIB, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, 4 * MIB, 0, two, 0));
    OK(cuMemMap(at, 4 * MIB, 0, one, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, 2 * MIB, 0, two, 0));
    OK(cuMemMap(at + 4 * MIB, 2 * MIB, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuMemSetAccess(at, 8 * MIB, &access, 1)); /* the end is not mapped */
    OK(cuMemSetAccess(at, 6 * MIB, &access, 1));
    OK(cuMemGetAccess(&flags, &access.location, at + 5 * MIB));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(at + MIB)));
    CHECK(same == one);
    OK(cuMemRelease(same));
    OK(cuMemGetAddressRange_v2(&p, &size, at + 5 * MIB));
    CHECK(p == at + 4 * MIB && size == 2 * MIB);

    /* The bytes belong to the chunk. Its handle may go before the mapping. */
    value = 7;
    OK(cuMemcpyHtoD_v2(at + 4 * MIB, &value, 8));
    OK(cuMemcpyHtoD_v2(at, &value, 8));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, 2 * MIB));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, 8 * MIB));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, 64 * MIB)); /* something is mapped */
    OK(cuMemUnmap(at + 4 * MIB, 2 * MIB));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at + 4 * MIB, 2 * MIB));
    OK(cuMemMap(at + 32 * MIB, 2 * MIB, 0, two, 0));
    OK(cuMemSetAccess(at + 32 * MIB, 2 * MIB, &access, 1));
    value = 0;
    OK(cuMemcpyDtoH_v2(&value, at + 32 * MIB, 8));
    CHECK(value == 7);
    OK(cuMemRelease(two));
    OK(cuMemcpyDtoH_v2(&value, at + 32 * MIB, 8));
    OK(cuMemUnmap(at + 32 * MIB, 2 * MIB));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(two));
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before - after == 4 * MIB);

    /* What comes back after an eviction is what went: a new chunk at the old address. */
    CUmemGenericAllocationHandle fresh;
    OK(cuMemUnmap(at, 4 * MIB));
    OK(cuMemRelease(one));
    OK(cuMemCreate(&fresh, 4 * MIB, &prop, 0));
    OK(cuMemMap(at, 4 * MIB, 0, fresh, 0));
    OK(cuMemSetAccess(at, 4 * MIB, &access, 1));
    OK(cuMemcpyDtoH_v2(&value, at, 8));
    CHECK(value != 7); /* whoever forgets to copy them back must notice */

    /* Exported and imported, it is one piece of memory with two mappings, counted once. */
    int file;
    OK(cuMemExportToShareableHandle(&file, fresh, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
    OK(cuMemMap(at + 16 * MIB, 4 * MIB, 0, same, 0));
    OK(cuMemSetAccess(at + 16 * MIB, 4 * MIB, &access, 1));
    value = 99;
    OK(cuMemcpyHtoD_v2(at, &value, 8));
    value = 0;
    OK(cuMemcpyDtoH_v2(&value, at + 16 * MIB, 8));
    CHECK(value == 99);
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before - after == 4 * MIB);
    OK(cuMemUnmap(at, 4 * MIB));
    OK(cuMemUnmap(at + 16 * MIB, 4 * MIB));
    OK(cuMemRelease(fresh));
    OK(cuMemRelease(same));
    OK(cuMemAddressFree(at, 64 * MIB));
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);

    /* Ordinary allocations. */
    OK(cuMemAlloc_v2(&p, 100));
    CHECK(p % 512 == 0);
    OK(cuMemAlloc_v2(&other, 100));
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before - after == 2 * MIB); /* small ones share */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p + 8));
    OK(cuMemGetAddressRange_v2(&at, &size, p + 50));
    CHECK(at == p && size == 100);
    OK(cuMemFree_v2(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(p, &value, 8));
    OK(cuMemFree_v2(other));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&p, before + 1));
    OK(cuMemAlloc_v2(&p, before)); /* to the last byte */
    OK(cuMemFree_v2(p));

    /* The GPU touches what is not there: the context is lost, and only the context. */
    CUcontext own;
    OK(cuCtxCreate_v2(&own, 0, 0));
    CUmodule module;
    CUfunction touch;
    uint64_t n = 8, stride = 1;
    static char registered[4096];
    OK(cuMemHostRegister_v2(registered, sizeof(registered), CU_MEMHOSTREGISTER_PORTABLE));
    OK(cuModuleLoad(&module, getenv("KERNELS")));
    OK(cuModuleGetFunction(&touch, module, "touch_u64"));
    OK(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
    LAUNCH(touch, NULL, &at, &n, &stride);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&p, 8));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(NULL));
    OK(cuCtxDestroy_v2(own));
    OK(cuCtxSetCurrent(context));
    EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(registered)); /* went along */
    OK(cuMemAlloc_v2(&p, 8));
    OK(cuMemcpyHtoD_v2(p, &value, 8));
    puts("ok");
    return 0;
}
