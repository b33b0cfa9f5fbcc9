/* The entry points of virtual memory management: reserve addresses, map handles, set access. */
#include <stdlib.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/allocation.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/multicast.h"
#include "simgpu/shared/sleep.h"

/* ---- addresses ---- */

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    SG_ENTER();
    if (!out || !sg_is_granular(size) || flags || (alignment & (alignment - 1))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->base = sg_addresses_alloc(size, alignment, hint);
    if (!range->base) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->size = range->span = size;
    range->kind = SG_RANGE_RESERVED;
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    *out = range->base;
    sg_pay(sg_profile_of(0)->reserve_ns);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    SG_ENTER();
    CUresult result = CUDA_SUCCESS;
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    struct sg_range *inside = sg_ranges_mapped_after(address);
    if (!range || range->kind != SG_RANGE_RESERVED || range->base != address ||
        range->size != size || (inside && inside->base < address + size)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        sg_ranges_remove(range);
    }
    sg_ranges_unlock();
    if (result) {
        return result;
    }
    sg_addresses_free(address, size);
    free(range);
    return CUDA_SUCCESS;
}

/* ---- mapping ---- */

/* Reserved, and nothing is mapped there. The map is locked. */
static int is_free(uint64_t address, uint64_t size)
{
    const struct sg_range *reserved = sg_ranges_find(address);
    const struct sg_range *inside = sg_ranges_mapped_after(address);
    return reserved && reserved->kind == SG_RANGE_RESERVED &&
           size <= reserved->size - (address - reserved->base) &&
           !(inside && inside->base < address + size);
}

/* A multicast object is mapped once all its GPUs were added. */
static void await_devices(CUmemGenericAllocationHandle handle)
{
    sg_allocations_lock();
    struct sg_multicast *object = sg_multicast_of(handle);
    if (object) {
        sg_multicast_ref(object);
    }
    sg_allocations_unlock();
    if (object) {
        sg_multicast_await_devices(object);
        sg_multicast_unref(object);
    }
}

/* No page is mapped for a multicast object: only kernels use it (exec/multimem.h). */
static CUresult map_multicast(struct sg_range *range, struct sg_multicast *object)
{
    if (range->size > sg_multicast_bytes(object)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_multicast_ref(object);
    range->multicast = object;
    sg_ranges_add(range);
    return CUDA_SUCCESS;
}

/* The map and the allocations are locked. */
static CUresult map(struct sg_range *range, CUmemGenericAllocationHandle handle)
{
    struct sg_multicast *object = sg_multicast_of(handle);
    struct sg_chunk *chunk = object ? NULL : sg_allocation(handle);
    if (object) {
        return map_multicast(range, object);
    }
    if (!chunk || range->size > chunk->bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_chunk_map(chunk, range->base, range->size, 0, PROT_NONE));
    sg_chunk_ref(chunk);
    range->gpu = chunk->gpu;
    range->chunk = chunk;
    sg_ranges_add(range);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SG_ENTER();
    if (flags || offset || !sg_is_granular(size) || address % SG_BLOCK_BYTES) {
        return CUDA_ERROR_INVALID_VALUE; /* as in NVIDIA's driver, only offset 0 is supported */
    }
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    await_devices(handle);
    *range =
        (struct sg_range){.base = address, .size = size, .span = size, .kind = SG_RANGE_MAPPED};
    sg_allocations_lock();
    sg_ranges_lock();
    CUresult result = is_free(address, size) ? map(range, handle) : CUDA_ERROR_INVALID_VALUE;
    unsigned gpu = range->gpu;
    sg_ranges_unlock();
    sg_allocations_unlock();
    if (result) {
        free(range);
        return result;
    }
    sg_pay(sg_profile_of(gpu)->map_ns);
    return CUDA_SUCCESS;
}

/* Counts the mappings that fill the range. Returns 0 if they do not fill it exactly. The map is locked. */
static unsigned whole_mappings(uint64_t address, uint64_t size)
{
    unsigned count = 0;
    uint64_t at = address;
    while (at < address + size) {
        struct sg_range *range = sg_ranges_find_mapped(at);
        if (!range || range->base != at || range->size > address + size - at) {
            return 0;
        }
        at += range->size;
        count++;
    }
    return count;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    SG_ENTER();
    if (!sg_is_granular(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_ranges_lock();
    unsigned count = whole_mappings(address, size), gpu = 0;
    struct sg_range *gone = NULL; /* linked by `managed`, which mappings do not use otherwise */
    for (uint64_t at = address; count && at < address + size;) {
        struct sg_range *range = sg_ranges_find_mapped(at);
        at += range->size;
        gpu = range->gpu;
        if (range->chunk) {
            sg_chunk_unmap(range->chunk, range->base, range->size, range->offset);
        }
        sg_ranges_remove(range);
        range->managed = (struct sg_managed *)(void *)gone;
        gone = range;
    }
    if (count) {
        sg_address_clear(address, size);
    }
    sg_ranges_unlock();
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    while (gone) {
        struct sg_range *next = (struct sg_range *)(void *)gone->managed;
        if (gone->chunk) {
            sg_chunk_unref(gone->chunk);
        } else {
            sg_multicast_unref(gone->multicast);
        }
        free(gone);
        gone = next;
    }
    sg_pay(count * sg_profile_of(gpu)->unmap_ns);
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    SG_ENTER();
    if (!desc || !count || !sg_is_granular(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            !sg_device_is(desc[i].location.id)) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    sg_ranges_lock();
    unsigned chunks = whole_mappings(address, size), gpu = 0;
    for (uint64_t at = address; chunks && at < address + size;) {
        struct sg_range *range = sg_ranges_find_mapped(at);
        gpu = range->gpu;
        /* One page table serves all devices: the strongest access of any device holds for the pages. */
        for (size_t i = 0; i < count; i++) {
            range->access_of[sg_device_of(desc[i].location.id)] = (uint8_t)desc[i].flags;
            if (sg_device_of(desc[i].location.id) == range->gpu ||
                (int)desc[i].flags > range->access) {
                range->access = (int)desc[i].flags;
            }
        }
        int protection = range->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                             ? PROT_READ | PROT_WRITE
                         : range->access == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                                          : PROT_NONE;
        if (range->chunk) {
            mprotect((void *)(uintptr_t)range->base, range->size, protection);
        }
        at += range->size;
    }
    sg_ranges_unlock();
    if (!chunks) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_pay(chunks * sg_profile_of(gpu)->access_ns);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    SG_ENTER();
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sg_device_is(location->id)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find_mapped(address);
    if (range) {
        *flags = range->access_of[sg_device_of(location->id)];
    }
    sg_ranges_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
