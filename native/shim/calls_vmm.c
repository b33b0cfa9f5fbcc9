/* The program's own virtual memory: what it makes with cuMemCreate is charged and leaves like all
 * other memory. Its handles are ours (allocation.h); addresses are the driver's own. */
#include "shim/allocation.h"
#include "shim/blocks.h"
#include "shim/charge.h"
#include "shim/control.h"
#include "shim/devices.h"
#include "shim/gate.h"
#include "shim/memory.h"
#include "shim/pool.h"
#include "shim/real.h"

/* Whether the shim moves such memory: that of a GPU. The rest is the driver's alone. */
static bool is_movable(const CUmemAllocationProp *prop)
{
    return control_is_active() && prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* As the driver sees it, before anybody is asked for room. */
static CUresult check(const void *handle, size_t size, const CUmemAllocationProp *prop,
                      unsigned long long flags)
{
    size_t step = 0;
    CUresult result =
        REAL(cuMemGetAllocationGranularity)(&step, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return handle && !flags && size && size % step == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A context is not needed for memory, but the agent counts none where it knows of no use. */
static CUresult find_device(CUdevice ordinal, struct device **device)
{
    CUresult result = device_attach(ordinal, device);
    if (result == CUDA_SUCCESS) {
        device_created(*device);
    }
    return result;
}

static CUresult make(struct block **made, struct device *device, size_t size,
                     const CUmemAllocationProp *prop)
{
    struct block *block = NULL;
    CUresult result = charge_ask(device, size, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && pools_give_up(device)) {
        result = charge_ask(device, size, 0);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    lock_take(&blocks_lock);
    result = allocation_make(&block, device, size, prop);
    if (result != CUDA_SUCCESS) {
        charge_drop(device, size, 0, 0);
    } else if (blocks_insert(block) != 0) {
        charge_drop(device, size, block_destroy(block), 0);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    lock_drop(&blocks_lock);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = memory_back(block);
    if (result != CUDA_SUCCESS) {
        LOCK_SCOPE(&blocks_lock);
        memory_discard(block);
    }
    *made = block;
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct device *device;
    struct block *block;
    if (!is_movable(prop)) {
        return REAL(cuMemCreate)(handle, size, prop, flags);
    }
    CUresult result = check(handle, size, prop, flags);
    if (result == CUDA_SUCCESS) {
        result = find_device(prop->location.id, &device);
    }
    if (result == CUDA_SUCCESS && !memory_allows(device, size)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        result = make(&block, device, size, prop);
    }
    if (result == CUDA_SUCCESS) {
        *handle = block->allocation->handle;
    }
    return result;
}

/* With blocks_lock held: nobody has or sees this memory any more. */
static void discard(struct block *block, struct device **unused)
{
    *unused = block->device;
    memory_discard(block);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct device *unused = NULL;
    lock_take(&blocks_lock);
    struct allocation *allocation = allocation_find(handle);
    bool ours = allocation != NULL;
    if (ours && allocation_release(allocation)) {
        discard(allocation->block, &unused);
    }
    lock_drop(&blocks_lock);
    if (unused) {
        device_detach_unused(unused);
    }
    return ours ? CUDA_SUCCESS : REAL(cuMemRelease)(handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    lock_take(&blocks_lock);
    struct mapping *mapping = mappings_find(at);
    bool hidden = blocks_find(at) != NULL; /* without us it would be no such memory */
    if (mapping && handle) {
        mapping->of->handles++;
        *handle = mapping->of->handle;
    }
    lock_drop(&blocks_lock);
    if (hidden || (mapping && !handle)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return mapping ? CUDA_SUCCESS : REAL(cuMemRetainAllocationHandle)(handle, address);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    lock_take(&blocks_lock);
    struct allocation *allocation = allocation_find(handle);
    if (allocation && prop) {
        *prop = allocation->prop;
    }
    lock_drop(&blocks_lock);
    if (allocation) {
        return prop ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return REAL(cuMemGetAllocationPropertiesFromHandle)(prop, handle);
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result;
    struct mw_slot *slot = gate_enter(); /* all of it is present in there */
    lock_take(&blocks_lock);
    struct allocation *allocation = allocation_find(handle);
    if (allocation) {
        /* No driver knows another offset than 0 yet. */
        result =
            offset ? CUDA_ERROR_INVALID_VALUE : allocation_map(allocation, address, size, flags);
    }
    lock_drop(&blocks_lock);
    if (!allocation) {
        result = REAL(cuMemMap)(address, size, offset, handle, flags);
    }
    gate_leave(slot);
    return result;
}

/* With blocks_lock held; drops it while something in the range is being moved. */
static void await_range(CUdeviceptr address, size_t size)
{
    struct mapping *mapping = mappings_after(address);
    while (mapping && mapping->base < address + size) {
        if (mapping->of->block->busy) {
            block_await(mapping->of->block);
            mapping = mappings_after(address); /* what was there may not be any more */
        } else {
            mapping = mappings_after(mapping->base + mapping->bytes);
        }
    }
}

/* What lies between our mappings was made behind our back (imported, the host's): the driver's own. */
static CUresult unmap_between(CUdeviceptr address, size_t size)
{
    CUdeviceptr end = address + size;
    CUresult result = CUDA_SUCCESS;
    while (address < end && result == CUDA_SUCCESS) {
        const struct mapping *next = mappings_after(address);
        CUdeviceptr until = next && next->base < end ? next->base : end;
        if (until > address) {
            result = REAL(cuMemUnmap)(address, until - address);
        }
        address = next && until == next->base ? next->base + next->bytes : end;
    }
    return result;
}

static CUresult unmap(CUdeviceptr address, size_t size, struct device **unused)
{
    LOCK_SCOPE(&blocks_lock);
    await_range(address, size);
    if (blocks_find(address) || !mappings_are_whole(address, size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = unmap_between(address, size);
    struct mapping *mapping = mappings_after(address);
    for (; result == CUDA_SUCCESS && mapping && mapping->base < address + size;
         mapping = mappings_after(address)) {
        struct allocation *allocation = mapping->of;
        if (allocation_unmap(mapping)) {
            discard(allocation->block, unused);
        }
    }
    return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    struct device *unused = NULL;
    if (!size || address + size < address) {
        return REAL(cuMemUnmap)(address, size);
    }
    CUresult result = unmap(address, size, &unused);
    if (unused) {
        device_detach_unused(unused);
    }
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                        size_t count)
{
    struct mw_slot *slot = gate_enter();
    lock_take(&blocks_lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!blocks_find(address) && (address + size < address || mappings_are_whole(address, size))) {
        result = REAL(cuMemSetAccess)(address, size, access, count);
    }
    struct mapping *mapping = result == CUDA_SUCCESS ? mappings_after(address) : NULL;
    while (mapping && mapping->base < address + size) {
        if (mapping_allow(mapping, access, count) != 0) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        mapping = mappings_after(mapping->base + mapping->bytes);
    }
    lock_drop(&blocks_lock);
    gate_leave(slot);
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    lock_take(&blocks_lock);
    const struct mapping *mapping = mappings_find(address);
    bool out = mapping && !allocation_sees(mapping, address);
    if (out && flags && location) {
        *flags = mapping_access(mapping, location);
    }
    lock_drop(&blocks_lock);
    if (out) {
        return flags && location ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return REAL(cuMemGetAccess)(flags, location, address);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    lock_take(&blocks_lock);
    const struct mapping *inside = mappings_after(address);
    bool used = blocks_find(address) || (inside && inside->base < address + size);
    lock_drop(&blocks_lock);
    return used ? CUDA_ERROR_INVALID_VALUE : REAL(cuMemAddressFree)(address, size);
}

/* ---- others may see it ---- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    struct mw_slot *slot = gate_enter();
    lock_take(&blocks_lock);
    struct allocation *allocation = allocation_find(handle);
    struct block *block = allocation ? allocation->block : NULL;
    CUmemGenericAllocationHandle real = block ? block->chunks[0].handle : handle;
    CUresult result = REAL(cuMemExportToShareableHandle)(shareable, real, type, flags);
    if (block && result == CUDA_SUCCESS) {
        block_keep(block);
    }
    lock_drop(&blocks_lock);
    gate_leave(slot);
    if (result == CUDA_SUCCESS) {
        control_share(MW_SHARED_EXPORTED);
    }
    return result;
}

/* With blocks_lock held. Of our own, a driver may give the handle that it gave us. */
static bool import_own(CUmemGenericAllocationHandle *handle)
{
    struct allocation *allocation = allocation_of_real(*handle);
    if (allocation) {
        REAL(cuMemRelease)(*handle);
        allocation->handles++;
        *handle = allocation->handle;
    }
    return allocation != NULL;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    CUresult result = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
    if (result == CUDA_SUCCESS) {
        lock_take(&blocks_lock);
        bool own = import_own(handle);
        lock_drop(&blocks_lock);
        control_share(own ? 0 : MW_SHARED_IMPORTED);
    }
    return result;
}

/* With blocks_lock held: all in a range that the shim could move stays from now on. */
static void keep_range(CUdeviceptr address, size_t size)
{
    struct mapping *mapping = mappings_after(address);
    struct block *block = blocks_find(address);
    if (block) {
        block_keep(block);
    }
    while (mapping && mapping->base < address + size) {
        block_keep(mapping->of->block);
        mapping = mappings_after(mapping->base + mapping->bytes);
    }
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    struct mw_slot *slot = gate_enter();
    lock_take(&blocks_lock);
    CUresult result = REAL(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
    if (result == CUDA_SUCCESS) {
        keep_range(address, size);
    }
    lock_drop(&blocks_lock);
    gate_leave(slot);
    return result;
}

/* The mark is the driver's, on its own piece of memory, and whoever sets it has another device use that. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct mw_slot *slot = gate_enter();
    lock_take(&blocks_lock);
    CUresult result = REAL(cuPointerSetAttribute)(value, attribute, ptr);
    if (result == CUDA_SUCCESS && control_is_active() &&
        attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned *)value) {
        keep_range(ptr, 1);
    }
    lock_drop(&blocks_lock);
    gate_leave(slot);
    return result;
}
