/* What virtual memory calls answer when they are used wrongly, or at the edge: one line each. The same
 * with moiety as without it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)
#define SAY(call) printf("%d %d %s\n", __LINE__, (int)(call), #call)
#define TELL(value) printf("%d %s = %lld\n", __LINE__, #value, (long long)(value))

static CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

static CUmemAllocationProp prop_of(unsigned types)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = types, .location = here};
}

static void creating(void)
{
    CUmemAllocationProp prop = prop_of(0), wrong = prop;
    CUmemGenericAllocationHandle handle = 0;
    size_t step;
    SAY(cuMemGetAllocationGranularity(&step, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    SAY(cuMemCreate(&handle, MIB, &prop, 0));
    SAY(cuMemCreate(&handle, 0, &prop, 0));
    SAY(cuMemCreate(NULL, 2 * MIB, &prop, 0));
    SAY(cuMemCreate(&handle, 2 * MIB, NULL, 0));
    SAY(cuMemCreate(&handle, 2 * MIB, &prop, 1));
    SAY(cuMemCreate(&handle, 1ull << 45, &prop, 0));
    wrong.location.id = 77;
    SAY(cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong.location.type = CU_MEM_LOCATION_TYPE_HOST;
    SAY(cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    SAY(cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong = prop;
    wrong.type = 0;
    SAY(cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    wrong = prop_of(CU_MEM_HANDLE_TYPE_FABRIC);
    SAY(cuMemCreate(&handle, 2 * MIB, &wrong, 0));
    SAY(cuMemRelease(0));
    SAY(cuMemRelease(12345));
}

static void mapping(CUdeviceptr at, unsigned types)
{
    CUmemAllocationProp prop = prop_of(types), told;
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, other = access;
    CUmemGenericAllocationHandle handle, same;
    CUdeviceptr base, alone;
    size_t bytes;
    unsigned long long flags = 99;
    int word = 7;
    SAY(cuMemCreate(&handle, 16 * MIB, &prop, 0));
    SAY(cuMemMap(at + MIB, 16 * MIB, 0, handle, 0));
    SAY(cuMemMap(at, 17 * MIB, 0, handle, 0));
    SAY(cuMemMap(at, 18 * MIB, 0, handle, 0));
    SAY(cuMemMap(at, 0, 0, handle, 0));
    SAY(cuMemMap(at, 2 * MIB, 2 * MIB, handle, 0));
    SAY(cuMemMap(at, 2 * MIB, 0, handle, 1));
    SAY(cuMemMap(at + 56 * MIB, 16 * MIB, 0, handle, 0));
    SAY(cuMemMap(at, 2 * MIB, 0, 4711, 0));
    SAY(cuMemSetAccess(at, 16 * MIB, &access, 1));
    SAY(cuMemMap(at, 16 * MIB, 0, handle, 0));
    SAY(cuMemGetAccess(&flags, &here, at + MIB));
    TELL(flags);
    SAY(cuMemMap(at + 14 * MIB, 16 * MIB, 0, handle, 0));
    SAY(cuMemSetAccess(at, 2 * MIB, &access, 1));
    SAY(cuMemSetAccess(at, 32 * MIB, &access, 1));
    SAY(cuMemSetAccess(at, 16 * MIB, NULL, 1));
    SAY(cuMemSetAccess(at, 16 * MIB, &access, 0));
    other.location.id = 9;
    SAY(cuMemSetAccess(at, 16 * MIB, &other, 1));
    other = access;
    memset(&other.flags, 2, 1); /* no value that the driver knows */
    SAY(cuMemSetAccess(at, 16 * MIB, &other, 1));
    SAY(cuMemSetAccess(at, 16 * MIB, &access, 1));
    SAY(cuMemGetAccess(&flags, &here, at + MIB));
    TELL(flags);
    SAY(cuMemGetAccess(&flags, &here, at + 20 * MIB));
    SAY(cuMemGetAccess(NULL, &here, at));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, at + 9 * MIB));
    TELL(base - at);
    TELL(bytes);
    SAY(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(at + 5 * MIB)));
    TELL(same == handle);
    SAY(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(at + 17 * MIB)));
    SAY(cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)at));
    SAY(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    TELL(told.type);
    TELL(told.requestedHandleTypes);
    TELL(told.location.id);
    SAY(cuMemGetAllocationPropertiesFromHandle(NULL, handle));
    SAY(cuMemGetAllocationPropertiesFromHandle(&told, 99));
    SAY(cuMemFree_v2(at));
    SAY(cuMemcpyHtoD_v2(at + 16 * MIB - 4, &word, 4));
    SAY(cuMemUnmap(at, 2 * MIB));
    SAY(cuMemUnmap(at + 2 * MIB, 14 * MIB));
    SAY(cuMemUnmap(at, 18 * MIB));
    SAY(cuMemUnmap(at, 0));
    SAY(cuMemUnmap(at + 40 * MIB, 2 * MIB));
    SAY(cuMemAddressFree(at, 64 * MIB));
    SAY(cuMemAddressFree(at, 16 * MIB));
    SAY(cuMemRelease(handle));
    SAY(cuMemRelease(handle));
    SAY(cuMemRelease(handle));
    word = 0;
    SAY(cuMemcpyDtoH_v2(&word, at + 16 * MIB - 4, 4));
    TELL(word);
    SAY(cuMemUnmap(at, 16 * MIB));
    SAY(cuMemUnmap(at, 16 * MIB));
    SAY(cuMemMap(at, 16 * MIB, 0, handle, 0));
    SAY(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    SAY(cuMemAlloc_v2(&alone, 4 * MIB));
    SAY(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)alone));
    SAY(cuMemUnmap(alone, 4 * MIB));
    SAY(cuMemSetAccess(alone, 4 * MIB, &access, 1));
    SAY(cuMemAddressFree(alone, 4 * MIB));
    SAY(cuMemFree_v2(alone + 512));
    SAY(cuMemFree_v2(alone));
    SAY(cuMemFree_v2(alone));
}

static void two_in_a_row(CUdeviceptr at)
{
    CUmemAllocationProp prop = prop_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle one, two, again;
    int file = -1;
    SAY(cuMemCreate(&one, 4 * MIB, &prop, 0));
    SAY(cuMemCreate(&two, 6 * MIB, &prop, 0));
    SAY(cuMemMap(at, 4 * MIB, 0, one, 0));
    SAY(cuMemMap(at + 4 * MIB, 6 * MIB, 0, two, 0));
    SAY(cuMemSetAccess(at, 10 * MIB, &access, 1));
    SAY(cuMemSetAccess(at, 8 * MIB, &access, 1));
    SAY(cuMemExportToShareableHandle(NULL, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemExportToShareableHandle(&file, 5, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemExportToShareableHandle(&file, one, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    SAY(cuMemExportToShareableHandle(&file, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
    SAY(cuMemExportToShareableHandle(&file, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemImportFromShareableHandle(NULL, (void *)(intptr_t)file,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    SAY(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)-1,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    SAY(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)0,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    SAY(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
    SAY(cuMemMap(at + 20 * MIB, 4 * MIB, 0, again, 0));
    SAY(cuMemSetAccess(at + 20 * MIB, 4 * MIB, &access, 1));
    SAY(cuMemUnmap(at, 10 * MIB));
    SAY(cuMemUnmap(at + 20 * MIB, 4 * MIB));
    SAY(cuMemRelease(again));
    SAY(cuMemRelease(again));
    SAY(cuMemRelease(one));
    SAY(cuMemRelease(two));
    CUmemAllocationProp closed = prop_of(0);
    SAY(cuMemCreate(&one, 32 * MIB, &closed, 0));
    SAY(cuMemExportToShareableHandle(&file, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemRelease(one));
}

int main(void)
{
    CUcontext context;
    CUdeviceptr at;
    CUmemGenericAllocationHandle early;
    CUmemAllocationProp prop = prop_of(0);
    SAY(cuMemCreate(&early, 2 * MIB, &prop, 0));
    SAY(cuInit(0));
    SAY(cuMemCreate(&early, 2 * MIB, &prop, 0)); /* it needs no context */
    SAY(cuMemRelease(early));
    SAY(cuMemCreate(&early, 2 * MIB, &prop, 0));
    SAY(cuDevicePrimaryCtxRetain(&context, 0));
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0));
    SAY(cuMemMap(at, 2 * MIB, 0, early, 0));
    SAY(cuMemUnmap(at, 2 * MIB));
    SAY(cuMemRelease(early));
    creating();
    mapping(at, 0);
    mapping(at, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    two_in_a_row(at);
    SAY(cuMemAddressFree(at, 64 * MIB));
    SAY(cuMemAddressFree(at, 64 * MIB));
    SAY(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
