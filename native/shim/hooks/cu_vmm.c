/* The program's own virtual memory: what it makes with cuMemCreate is charged and leaves like all
 * other memory. Its handles are ours (vmm_handle.h); addresses are the driver's own. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/accounting.h"
#include "shim/mem/alloc.h"
#include "shim/mem/device.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/oom_retry.h"
#include "shim/mem/pin.h"
#include "shim/mem/release.h"
#include "shim/mem/vmm_handle.h"
#include "shim/pool/trim.h"

/* Whether the shim moves such memory: that of a GPU. The rest is the driver's alone. */
static bool is_movable(const CUmemAllocationProp *prop)
{
    return client_is_active() && prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* Checks the arguments as the driver does, before the agent is asked for room. */
static CUresult check(const void *handle, size_t size, const CUmemAllocationProp *prop,
                      unsigned long long flags)
{
    size_t step = 0;
    CUresult result =
        DRIVER(cuMemGetAllocationGranularity)(&step, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return handle && !flags && size && size % step == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Memory needs no context, but the agent counts memory only on GPUs that the client has
 * attached. */
static CUresult find_device(CUdevice ordinal, struct device **device)
{
    CUresult result = device_attach(ordinal, device);
    if (result == CUDA_SUCCESS) {
        device_created(*device);
    }
    return result;
}

static CUresult make(struct extent **made, struct device *device, size_t size,
                     const CUmemAllocationProp *prop)
{
    struct extent *extent = NULL;
    CUresult result = accounting_charge(device, size, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && trim_reclaim(device)) {
        result = accounting_charge(device, size, 0);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    lock_take(&extent_lock);
    result = vmm_handle_make(&extent, device, size, prop);
    if (result != CUDA_SUCCESS) {
        accounting_release(device, size, 0, 0);
    } else if (extent_table_insert(extent) != 0) {
        accounting_release(device, size, extent_destroy(extent), 0);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    lock_drop(&extent_lock);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = oom_retry_map(extent);
    if (result != CUDA_SUCCESS) {
        lock_take(&extent_lock);
        extent_retire(extent);
        lock_drop(&extent_lock);
        release_extent(extent);
    }
    *made = extent;
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct device *device;
    struct extent *extent;
    if (!is_movable(prop)) {
        return DRIVER(cuMemCreate)(handle, size, prop, flags);
    }
    CUresult result = check(handle, size, prop, flags);
    if (result == CUDA_SUCCESS) {
        result = find_device(prop->location.id, &device);
    }
    if (result == CUDA_SUCCESS && !alloc_is_allowed(device, size)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        result = make(&extent, device, size, prop);
    }
    if (result == CUDA_SUCCESS) {
        *handle = extent->vmm_handle->handle;
    }
    return result;
}

/* The extent is retiring: the program has no handle and no mapping of its memory any more. */
static void discard(struct extent *extent)
{
    struct device *device = extent->device;
    release_extent(extent);
    accounting_detach_unused(device);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct extent *gone = NULL;
    lock_take(&extent_lock);
    struct vmm_handle *vmm_handle = vmm_handle_find(handle);
    bool ours = vmm_handle != NULL;
    if (ours && vmm_handle_release(vmm_handle)) {
        gone = vmm_handle->extent;
        extent_retire(gone);
    }
    lock_drop(&extent_lock);
    if (gone) {
        discard(gone);
    }
    return ours ? CUDA_SUCCESS : DRIVER(cuMemRelease)(handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    lock_take(&extent_lock);
    struct vmm_mapping *mapping = vmm_mappings_find(at);
    bool hidden = extent_table_find(at) != NULL; /* cuMemAlloc's, which has no handle */
    if (mapping && handle) {
        mapping->of->handles++;
        *handle = mapping->of->handle;
    }
    lock_drop(&extent_lock);
    if (hidden || (mapping && !handle)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return mapping ? CUDA_SUCCESS : DRIVER(cuMemRetainAllocationHandle)(handle, address);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    lock_take(&extent_lock);
    struct vmm_handle *vmm_handle = vmm_handle_find(handle);
    if (vmm_handle && prop) {
        *prop = vmm_handle->prop;
    }
    lock_drop(&extent_lock);
    if (vmm_handle) {
        return prop ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return DRIVER(cuMemGetAllocationPropertiesFromHandle)(prop, handle);
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result;
    struct mw_slot *slot = gate_enter(); /* all of it is present in there */
    lock_take(&extent_lock);
    struct vmm_handle *vmm_handle = vmm_handle_find(handle);
    if (vmm_handle) {
        /* No driver knows another offset than 0 yet. */
        result =
            offset ? CUDA_ERROR_INVALID_VALUE : vmm_handle_map(vmm_handle, address, size, flags);
    }
    lock_drop(&extent_lock);
    if (!vmm_handle) {
        result = DRIVER(cuMemMap)(address, size, offset, handle, flags);
    }
    gate_leave(slot);
    return result;
}

/* An extent that is mapped in the range and being moved, whose moves are held now; NULL: there is none. */
static struct extent *moving_in(CUdeviceptr address, size_t size)
{
    struct vmm_mapping *mapping = vmm_mappings_after(address);
    while (mapping && mapping->base < address + size) {
        if (mapping->of->extent->busy) {
            extent_hold_moves(mapping->of->extent);
            return mapping->of->extent;
        }
        mapping = vmm_mappings_after(mapping->base + mapping->bytes);
    }
    return NULL;
}

/* Takes extent_lock when nothing in the range is being moved. */
static void lock_when_still(CUdeviceptr address, size_t size)
{
    struct extent *moving;
    lock_take(&extent_lock);
    while ((moving = moving_in(address, size)) != NULL) {
        lock_drop(&extent_lock);
        extent_await_moves(moving);
        lock_take(&extent_lock);
        extent_release_moves(moving);
    }
}

/* Mappings between those of the table are the driver's own: imported memory, or the host's. */
static CUresult unmap_between(CUdeviceptr address, size_t size)
{
    CUdeviceptr end = address + size;
    CUresult result = CUDA_SUCCESS;
    while (address < end && result == CUDA_SUCCESS) {
        const struct vmm_mapping *next = vmm_mappings_after(address);
        CUdeviceptr until = next && next->base < end ? next->base : end;
        if (until > address) {
            result = DRIVER(cuMemUnmap)(address, until - address);
        }
        address = next && until == next->base ? next->base + next->bytes : end;
    }
    return result;
}

/* With extent_lock: *gone is the list of extents without handles and mappings; they are
 * retiring. */
static CUresult unmap(CUdeviceptr address, size_t size, struct vmm_handle **gone)
{
    if (extent_table_find(address) || !vmm_mappings_are_whole(address, size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = unmap_between(address, size);
    struct vmm_mapping *mapping = vmm_mappings_after(address);
    for (; result == CUDA_SUCCESS && mapping && mapping->base < address + size;
         mapping = vmm_mappings_after(address)) {
        struct vmm_handle *vmm_handle = mapping->of;
        if (vmm_handle_unmap(mapping)) {
            extent_retire(vmm_handle->extent);
            vmm_handle->next_gone = *gone;
            *gone = vmm_handle;
        }
    }
    return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    struct vmm_handle *gone = NULL;
    if (!size || address + size < address) {
        return DRIVER(cuMemUnmap)(address, size);
    }
    lock_when_still(address, size);
    CUresult result = unmap(address, size, &gone);
    lock_drop(&extent_lock);
    while (gone) {
        struct vmm_handle *next = gone->next_gone;
        discard(gone->extent);
        gone = next;
    }
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                        size_t count)
{
    struct mw_slot *slot = gate_enter();
    lock_take(&extent_lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!extent_table_find(address) &&
        (address + size < address || vmm_mappings_are_whole(address, size))) {
        result = DRIVER(cuMemSetAccess)(address, size, access, count);
    }
    struct vmm_mapping *mapping = result == CUDA_SUCCESS ? vmm_mappings_after(address) : NULL;
    while (mapping && mapping->base < address + size) {
        if (vmm_mapping_allow(mapping, access, count) != 0) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        mapping = vmm_mappings_after(mapping->base + mapping->bytes);
    }
    lock_drop(&extent_lock);
    gate_leave(slot);
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    lock_take(&extent_lock);
    const struct vmm_mapping *mapping = vmm_mappings_find(address);
    bool out = mapping && !vmm_handle_is_present_at(mapping, address);
    if (out && flags && location) {
        *flags = vmm_mapping_access(mapping, location);
    }
    lock_drop(&extent_lock);
    if (out) {
        return flags && location ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return DRIVER(cuMemGetAccess)(flags, location, address);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    lock_take(&extent_lock);
    const struct vmm_mapping *inside = vmm_mappings_after(address);
    bool used = extent_table_find(address) || (inside && inside->base < address + size);
    lock_drop(&extent_lock);
    return used ? CUDA_ERROR_INVALID_VALUE : DRIVER(cuMemAddressFree)(address, size);
}

/* ---- memory that other processes can see ---- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult result = pin_handle(handle, "cuMemExportToShareableHandle");
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    lock_take(&extent_lock);
    struct vmm_handle *vmm_handle = vmm_handle_find(handle);
    struct extent *extent = vmm_handle ? vmm_handle->extent : NULL;
    CUmemGenericAllocationHandle real = extent ? extent->chunks[0].handle : handle;
    result = DRIVER(cuMemExportToShareableHandle)(shareable, real, type, flags);
    if (result != CUDA_SUCCESS) {
        unpin_handle(handle);
    }
    lock_drop(&extent_lock);
    gate_leave(slot);
    if (result == CUDA_SUCCESS) {
        client_report_shared(MW_SHARED_EXPORTED);
    }
    return result;
}

/* With extent_lock held. For memory of this process a driver may return the handle that the shim
 * has. */
static bool import_own(CUmemGenericAllocationHandle *handle)
{
    struct vmm_handle *vmm_handle = vmm_handle_of_driver(*handle);
    if (vmm_handle) {
        DRIVER(cuMemRelease)(*handle);
        vmm_handle->handles++;
        *handle = vmm_handle->handle;
    }
    return vmm_handle != NULL;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    CUresult result = DRIVER(cuMemImportFromShareableHandle)(handle, shareable, type);
    if (result == CUDA_SUCCESS) {
        lock_take(&extent_lock);
        bool own = import_own(handle);
        lock_drop(&extent_lock);
        client_report_shared(own ? 0 : MW_SHARED_IMPORTED);
    }
    return result;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    CUresult result = pin_range(address, size, "cuMemGetHandleForAddressRange");
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    lock_take(&extent_lock);
    result = DRIVER(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
    if (result != CUDA_SUCCESS) {
        unpin_range(address, size);
    }
    lock_drop(&extent_lock);
    gate_leave(slot);
    return result;
}

/* The driver keeps the attribute for its own piece of memory. A program sets it so that another
 * device can use that memory. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    bool pins = value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned *)value;
    CUresult result =
        pins ? pin_range(ptr, 1, "cuPointerSetAttribute (SYNC_MEMOPS)") : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    lock_take(&extent_lock);
    result = DRIVER(cuPointerSetAttribute)(value, attribute, ptr);
    if (pins && result != CUDA_SUCCESS) {
        unpin_range(ptr, 1);
    }
    lock_drop(&extent_lock);
    gate_leave(slot);
    return result;
}
