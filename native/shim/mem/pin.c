#include "shim/mem/pin.h"

#include "shim/agent/client_report.h"
#include "shim/mem/accounting.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/vmm_handle.h"

/* ---- what there is to pin; with extent_lock held ---- */

/* The extent behind an address, or behind a handle; NULL: nothing that moves. */
typedef struct extent *find_extent(uint64_t key);

static struct extent *movable(struct extent *extent)
{
    return extent && !extent->retiring && !extent_is_managed(extent) ? extent : NULL;
}

static struct extent *at_address(uint64_t key)
{
    const struct vmm_mapping *mapping = vmm_mappings_find(key);
    return movable(mapping ? mapping->of->extent : extent_table_find(key));
}

static struct extent *of_handle(uint64_t key)
{
    const struct vmm_handle *vmm_handle = vmm_handle_find(key);
    return movable(vmm_handle ? vmm_handle->extent : NULL);
}

static uint64_t charged_bytes(const struct extent *extent)
{
    return extent->span - extent->decommitted_bytes;
}

/* Where what is shown at an address ends, or what comes next begins. */
static CUdeviceptr next_address(CUdeviceptr address)
{
    const struct vmm_mapping *next = vmm_mappings_after(address);
    const struct extent *extent = extent_table_find(address);
    if (extent) {
        return extent_end(extent);
    }
    if (!next) {
        return UINT64_MAX;
    }
    return next->base > address ? next->base : next->base + next->bytes;
}

/* ---- one extent ---- */

/* What was found before the agent was asked. */
struct found {
    uint64_t sequence; /* of the extent */
    uint64_t bytes;    /* to ask for; 0: it is pinned, or there is nothing to pin */
    uint32_t gpu;
};

static struct found look(find_extent *find, uint64_t key)
{
    LOCK_SCOPE(&extent_lock);
    struct extent *extent = find(key);
    struct found found = {0};
    if (extent && extent->pins) {
        extent->pins++;
    } else if (extent) {
        found = (struct found){extent->sequence, charged_bytes(extent), extent->device->gpu};
    }
    return found;
}

/* Pins what the agent agreed to; false: meanwhile it became something else, or another thread pinned it, so
 * the bytes are given back. */
static bool take(find_extent *find, uint64_t key, const struct found *found)
{
    LOCK_SCOPE(&extent_lock);
    struct extent *extent = find(key);
    bool same = extent && extent->sequence == found->sequence && !extent->pins &&
                charged_bytes(extent) == found->bytes;
    if (same) {
        extent->pins = 1;
        extent->was_pinned = true;
    } else {
        accounting_unpin(found->gpu, found->bytes);
    }
    return same;
}

static CUresult pin(find_extent *find, uint64_t key, const char *call)
{
    struct found found = look(find, key);
    while (found.bytes) {
        if (!client_ask_pin(found.gpu, found.bytes, call)) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (take(find, key, &found)) {
            return CUDA_SUCCESS;
        }
        found = look(find, key);
    }
    return CUDA_SUCCESS;
}

void unpin_extent(struct extent *extent)
{
    if (!extent->pins) {
        return;
    }
    extent->pins--;
    if (!extent->pins) {
        accounting_unpin(extent->device->gpu, charged_bytes(extent));
    }
}

/* ---- all of a range, or of a handle ---- */

CUresult pin_range(CUdeviceptr address, size_t size, const char *call)
{
    CUdeviceptr end = address + size < address ? UINT64_MAX : address + size;
    CUresult result = CUDA_SUCCESS;
    for (CUdeviceptr at = address; at < end && client_is_active();) {
        result = pin(at_address, at, call);
        LOCK_SCOPE(&extent_lock);
        if (result != CUDA_SUCCESS) {
            unpin_range(address, at - address);
            return result;
        }
        at = next_address(at);
    }
    return result;
}

void unpin_range(CUdeviceptr address, size_t size)
{
    CUdeviceptr end = address + size < address ? UINT64_MAX : address + size;
    for (CUdeviceptr at = address; at < end; at = next_address(at)) {
        struct extent *extent = at_address(at);
        if (extent) {
            unpin_extent(extent);
        }
    }
}

CUresult pin_handle(CUmemGenericAllocationHandle handle, const char *call)
{
    return client_is_active() ? pin(of_handle, handle, call) : CUDA_SUCCESS;
}

void unpin_handle(CUmemGenericAllocationHandle handle)
{
    struct extent *extent = of_handle(handle);
    if (extent) {
        unpin_extent(extent);
    }
}
