#include "shim/mem/vmm_handle.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/driver.h"
#include "shim/mem/extent.h"
#include "shim/mem/vmm_bind.h"
#include "shim/mem/vmm_chunk.h"

/* No address looks like this, and no handle that a driver was seen to give. */
#define HANDLE_MARK (0x6d79ull << 48)

static struct vmm_handle **table; /* in order of handle, which is that of birth */
static size_t count;
static size_t room;
static uint64_t births;

static size_t place(CUmemGenericAllocationHandle handle)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle]->handle < handle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct vmm_handle *vmm_handle_find(CUmemGenericAllocationHandle handle)
{
    size_t at = place(handle);
    bool given = at < count && table[at]->handle == handle && table[at]->handles;
    return given ? table[at] : NULL;
}

static bool insert(struct vmm_handle *vmm_handle)
{
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        struct vmm_handle **grown = realloc(table, more * sizeof(struct vmm_handle *));
        if (!grown) {
            return false;
        }
        table = grown;
        room = more;
    }
    table[count++] = vmm_handle;
    return true;
}

static bool is_unused(const struct vmm_handle *vmm_handle)
{
    return !vmm_handle->handles && !vmm_handle->mappings;
}

bool vmm_handle_release(struct vmm_handle *vmm_handle)
{
    vmm_handle->handles--;
    return is_unused(vmm_handle);
}

struct vmm_handle *vmm_handle_of_driver(CUmemGenericAllocationHandle real)
{
    for (size_t i = 0; i < count; i++) {
        const struct extent *extent = table[i]->extent;
        if (extent->pins && chunk_has_memory(&extent->chunks[0]) &&
            extent->chunks[0].handle == real) {
            return table[i];
        }
    }
    return NULL;
}

/* ---- as the program sees it ---- */

CUresult vmm_handle_map(struct vmm_handle *vmm_handle, CUdeviceptr address, uint64_t bytes,
                        unsigned long long flags)
{
    struct extent *extent = vmm_handle->extent;
    struct vmm_mapping *made = calloc(1, sizeof(*made));
    CUresult result = bytes && bytes <= extent->span ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    uint32_t shown = 0;
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct vmm_mapping){.base = address, .bytes = bytes, .of = vmm_handle};
    while (result == CUDA_SUCCESS && shown < extent->chunk_count &&
           vmm_chunk_part(made, extent, shown)) {
        const struct chunk *chunk = &extent->chunks[shown];
        result =
            chunk_has_memory(chunk)
                ? DRIVER(cuMemMap)(address + vmm_chunk_offset(extent, shown),
                                   vmm_chunk_part(made, extent, shown), 0, chunk->handle, flags)
                : CUDA_ERROR_OUT_OF_MEMORY; /* its context is broken */
        shown += result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && vmm_mappings_insert(made) != 0) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        while (shown) {
            vmm_chunk_hide(made, extent, --shown);
        }
        free(made);
        return result;
    }
    made->next_of = vmm_handle->mappings;
    vmm_handle->mappings = made;
    return CUDA_SUCCESS;
}

bool vmm_handle_is_present_at(const struct vmm_mapping *mapping, CUdeviceptr address)
{
    const struct extent *extent = mapping->of->extent;
    return chunk_has_memory(&extent->chunks[(address - mapping->base) / extent->chunks[0].bytes]);
}

static void forget(struct vmm_mapping *mapping)
{
    struct vmm_mapping **at = &mapping->of->mappings;
    while (*at != mapping) {
        at = &(*at)->next_of;
    }
    *at = mapping->next_of;
    vmm_mappings_remove(mapping);
    free(mapping->access);
    free(mapping);
}

bool vmm_handle_unmap(struct vmm_mapping *mapping)
{
    struct vmm_handle *vmm_handle = mapping->of;
    for (uint32_t i = 0; i < vmm_handle->extent->chunk_count; i++) {
        if (chunk_has_memory(&vmm_handle->extent->chunks[i])) {
            vmm_chunk_hide(mapping, vmm_handle->extent, i);
        }
    }
    forget(mapping);
    return is_unused(vmm_handle);
}

static void release(struct extent *extent)
{
    struct vmm_handle *vmm_handle = extent->vmm_handle;
    size_t at = place(vmm_handle->handle);
    for (struct vmm_mapping *m = vmm_handle->mappings, *next; m; m = next) {
        next = m->next_of;
        forget(m);
    }
    if (vmm_handle->staging) {
        DRIVER(cuMemAddressFree)(vmm_handle->staging, extent->span);
    }
    count--;
    memmove(table + at, table + at + 1, (count - at) * sizeof(struct vmm_handle *));
    free(vmm_handle);
}

static uint32_t map_one(struct extent *extent, uint32_t first, uint32_t most, CUresult *result)
{
    *result = most ? vmm_chunk_map(extent, first) : CUDA_SUCCESS;
    return most && *result == CUDA_SUCCESS;
}

static const struct extent_ops mapped_ops = {
    .kind = EXTENT_MAPPED,
    .address = vmm_chunk_address,
    .ensure_mapped = vmm_chunk_ensure_mapped,
    .map = map_one,
    .unmap = vmm_chunk_unmap,
    .release = release,
};

CUresult vmm_handle_make(struct extent **extent, struct device *device, uint64_t bytes,
                         const CUmemAllocationProp *prop)
{
    struct vmm_handle *made = calloc(1, sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* What can be exported, and what arrays are mapped to, is one piece of memory for the driver as well. */
    bool whole = prop->requestedHandleTypes != 0 ||
                 (prop->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) != 0;
    if (extent_make_unplaced(extent, &mapped_ops, device, bytes, whole) != CUDA_SUCCESS) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct vmm_handle){
        .handle = HANDLE_MARK | ++births, .handles = 1, .prop = *prop, .extent = *extent};
    if (!insert(made)) {
        free(*extent);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*extent)->vmm_handle = made;
    return CUDA_SUCCESS;
}

void vmm_handle_after_fork(void)
{
    count = 0;
    vmm_bind_after_fork();
    vmm_mappings_after_fork();
}
