#include "shim/mem/address_info.h"

#include "shim/base/lock.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/free_cache.h"
#include "shim/mem/slab.h"
#include "shim/mem/upcalls.h"
#include "shim/mem/vmm_chunk.h"
#include "shim/mem/vmm_mappings.h"

#define NOTHING ((CUdeviceptr)8) /* in a page that is never mapped */

bool address_info_base(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base)
{
    size_t bytes;
    uint64_t number;
    *base = extent->base;
    return extent->use != EXTENT_OF_SLAB || slab_range(extent, pointer, base, &bytes, &number);
}

bool address_info_get(CUdeviceptr pointer, struct address_info *info)
{
    lock_take(&extent_lock);
    struct extent *extent = extent_table_find(pointer);
    bool pooled = extent && extent->use == EXTENT_OF_POOL;
    const struct vmm_mapping *mapping = extent ? NULL : vmm_mappings_find(pointer);
    bool found = (extent && !pooled) || mapping;
    if (mapping) {
        *info = (struct address_info){.base = mapping->base,
                                      .bytes = mapping->bytes,
                                      .ordinal = mapping->of->prop.location.id,
                                      .mapping = true,
                                      .handle_types = mapping->of->prop.requestedHandleTypes,
                                      .number = mapping->of->extent->sequence};
    } else if (found) {
        *info = (struct address_info){.base = extent->base,
                                      .bytes = extent->bytes,
                                      .context = extent->context,
                                      .ordinal = extent->device->ordinal,
                                      .managed = extent_is_managed(extent),
                                      .number = extent->sequence};
        if (extent->use == EXTENT_OF_SLAB) {
            found = slab_range(extent, pointer, &info->base, &info->bytes, &info->number);
        }
        found = found && pointer < info->base + info->bytes;
    }
    lock_drop(&extent_lock);
    if (!extent && !mapping) {
        return mem_upcalls.import_info(pointer, info);
    }
    return pooled ? mem_upcalls.pool_info(pointer, info) : found;
}

CUdeviceptr address_info_as_seen(CUdeviceptr pointer)
{
    struct address_info info;
    if (address_info_get(pointer, &info)) {
        return pointer;
    }
    LOCK_SCOPE(&extent_lock);
    return extent_table_find(pointer) || free_cache_has(pointer) ? NOTHING : pointer;
}

bool address_info_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes)
{
    struct address_info info;
    if (!address_info_get(pointer, &info)) {
        return false;
    }
    if (base) {
        *base = info.base;
    }
    if (bytes) {
        *bytes = info.bytes;
    }
    return true;
}
