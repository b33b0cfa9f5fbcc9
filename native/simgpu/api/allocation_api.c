/* The entry points of cuMemCreate's handles: memory without an address. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/allocation.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/multicast.h"
#include "simgpu/shared/sleep.h"

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return prop->location.type > CU_MEM_LOCATION_TYPE_DEVICE &&
                       prop->location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(prop->location.id)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    SG_ENTER();
    if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_prop(prop));
    *granularity = SG_BLOCK_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct sg_chunk *chunk;
    SG_ENTER();
    if (!out || flags || !sg_is_granular(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_prop(prop));
    unsigned gpu = sg_device_of(prop->location.id);
    if (prop->allocFlags.gpuDirectRDMACapable && !sg_profile_of(gpu)->rdma) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    SG_TRY(sg_chunk_create(&chunk, gpu, size, prop));
    chunk->handles = 1;
    sg_handle_add(chunk, SG_CHUNK);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)chunk;
    sg_pay(sg_profile_of(gpu)->create_ns);
    return CUDA_SUCCESS;
}

/* Gives the program a handle. One chunk has one value, which the program releases once per handle. */
static void give_handle(struct sg_chunk *chunk, CUmemGenericAllocationHandle *out)
{
    if (chunk->handles++ == 0) {
        sg_handle_add(chunk, SG_CHUNK);
    }
    *out = (CUmemGenericAllocationHandle)(uintptr_t)chunk;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SG_ENTER();
    sg_allocations_lock();
    struct sg_multicast *multicast = sg_multicast_of(handle);
    struct sg_chunk *chunk = multicast ? NULL : sg_allocation(handle);
    sg_multicast_take_handle(multicast);
    if (chunk && --chunk->handles == 0) {
        sg_handle_remove(chunk, SG_CHUNK);
    }
    sg_allocations_unlock();
    if (multicast) {
        sg_multicast_unref(multicast);
        return CUDA_SUCCESS;
    }
    if (!chunk) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_pay(sg_profile_of(chunk->gpu)->release_ns);
    sg_chunk_unref(chunk);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_allocations_lock();
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find_mapped((uint64_t)(uintptr_t)address);
    if (range && range->multicast) {
        sg_multicast_ref(range->multicast);
        *out = sg_multicast_give_handle(range->multicast);
    } else if (range) {
        sg_chunk_ref(range->chunk);
        give_handle(range->chunk, out);
    }
    sg_ranges_unlock();
    sg_allocations_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    SG_ENTER();
    struct sg_chunk *chunk = sg_allocation(handle);
    if (!chunk || !prop) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *prop = chunk->prop;
    return CUDA_SUCCESS;
}

/* ---- between processes ---- */

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sg_token token;
    int file;
    SG_ENTER();
    const struct sg_multicast *multicast = sg_multicast_of(handle);
    struct sg_chunk *chunk = multicast ? NULL : sg_allocation(handle);
    if (!out || flags || (!chunk && !multicast)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (multicast) {
        SG_TRY(sg_multicast_export(multicast, &file));
        memcpy(out, &file, sizeof file);
        return CUDA_SUCCESS;
    }
    if (!(chunk->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_chunk_share(chunk, &token));
    file = (int)syscall(SYS_memfd_create, "simgpu-shared", 1u /* MFD_CLOEXEC */);
    if (file < 0 || write(file, &token, sizeof token) != (ssize_t)sizeof token) {
        if (file >= 0) {
            close(file);
        }
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(out, &file, sizeof file);
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    struct sg_multicast *multicast;
    struct sg_token token;
    struct sg_chunk *chunk;
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (sg_multicast_import(&multicast, (int)(intptr_t)os_handle) == CUDA_SUCCESS) {
        sg_allocations_lock();
        *out = sg_multicast_give_handle(multicast);
        sg_allocations_unlock();
        return CUDA_SUCCESS;
    }
    if (pread((int)(intptr_t)os_handle, &token, sizeof token, 0) != (ssize_t)sizeof token) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_allocations_lock();
    CUresult result = sg_chunk_adopt(&chunk, &token);
    if (!result) {
        give_handle(chunk, out);
    }
    sg_allocations_unlock();
    return result;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    SG_ENTER();
    (void)handle, (void)address, (void)size, (void)type, (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED; /* dma-buf is not supported, as the device attribute says */
}
