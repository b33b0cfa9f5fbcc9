#include "shim/hooks/range_check.h"

#include <string.h>

#include "shim/agent/client_report.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/free_cache.h"
#include "shim/mem/slab.h"
#include "shim/pool/pool.h"

__thread struct range_check_last range_check_last;

CUresult range_check_error(void)
{
    CUresult result = device_check();
    return result ? result : CUDA_ERROR_INVALID_VALUE;
}

enum owner { NOT_OURS, A_POOL, AN_ALLOCATION };

/* With the lock, so that the version is that of what was found. */
static struct range_check_last *begin_last(void)
{
    struct range_check_last *last = &range_check_last;
    uint64_t version = atomic_load_explicit(&extents_version, memory_order_relaxed);
    if (last->version != version) {
        *last = (struct range_check_last){.version = version};
    }
    return last;
}

/* The owner of the page that an address lies in, and the allocation there, which may have no
 * bytes. */
static enum owner find(CUdeviceptr address, CUdeviceptr *base, size_t *size)
{
    uint64_t number;
    LOCK_SCOPE(&extent_lock);
    const struct extent *extent = extent_table_find(address);
    if (!extent && free_cache_has(address)) { /* the driver still knows these addresses */
        *base = address;
        *size = 0;
        return AN_ALLOCATION;
    }
    if (!extent) {
        begin_last()->foreign = address;
        return NOT_OURS;
    }
    if (extent->use == EXTENT_OF_POOL) {
        return A_POOL;
    }
    *base = extent->base;
    *size = extent->bytes;
    if (extent->use == EXTENT_OF_ONE) {
        struct range_check_last *last = begin_last();
        last->base = extent->base;
        last->size = extent->bytes;
    }
    if (extent->use == EXTENT_OF_SLAB && !slab_range(extent, address, base, size, &number)) {
        *size = 0;
    }
    return AN_ALLOCATION;
}

bool range_check_fails_now(CUdeviceptr address, uint64_t bytes)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    if (!address || !bytes || !client_is_active()) {
        return false;
    }
    enum owner owner = find(address, &base, &size);
    if (owner == NOT_OURS) {
        return false;
    }
    if (owner == A_POOL && !pool_range(address, &base, &size)) {
        return true;
    }
    return address - base >= size || bytes > size - (address - base);
}

bool range_check_fails_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                             size_t count, size_t *failed)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++) {
        if (range_check_fails(dsts[i], sizes[i]) || range_check_fails(srcs[i], sizes[i])) {
            if (failed) {
                *failed = i;
            }
            return true;
        }
    }
    return false;
}

bool range_check_fails_rows(CUdeviceptr address, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes;
    if (!width || !height || (height > 1 && pitch < width) ||
        __builtin_mul_overflow(height - 1, pitch, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes)) {
        return false;
    }
    return range_check_fails(address, bytes);
}

static bool is_of_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

bool range_check_fails_2d(const CUDA_MEMCPY2D *copy)
{
    if (!copy) {
        return false;
    }
    CUdeviceptr dst = copy->dstDevice + copy->dstY * copy->dstPitch + copy->dstXInBytes;
    CUdeviceptr src = copy->srcDevice + copy->srcY * copy->srcPitch + copy->srcXInBytes;
    return (is_of_device(copy->dstMemoryType) &&
            range_check_fails_rows(dst, copy->dstPitch, copy->WidthInBytes, copy->Height)) ||
           (is_of_device(copy->srcMemoryType) &&
            range_check_fails_rows(src, copy->srcPitch, copy->WidthInBytes, copy->Height));
}

/* `rows` is how many lie between a slice and the next. */
static bool lacks_slices(CUdeviceptr address, uint64_t pitch, uint64_t rows,
                         const CUDA_MEMCPY3D *copy)
{
    if (!copy->Depth || !copy->Height || (copy->Depth > 1 && rows < copy->Height)) {
        return false;
    }
    return range_check_fails_rows(address, pitch, copy->WidthInBytes,
                                  (copy->Depth - 1) * rows + copy->Height);
}

bool range_check_fails_3d(const CUDA_MEMCPY3D *copy)
{
    if (!copy) {
        return false;
    }
    CUdeviceptr dst = copy->dstDevice +
                      (copy->dstZ * copy->dstHeight + copy->dstY) * copy->dstPitch +
                      copy->dstXInBytes;
    CUdeviceptr src = copy->srcDevice +
                      (copy->srcZ * copy->srcHeight + copy->srcY) * copy->srcPitch +
                      copy->srcXInBytes;
    return (is_of_device(copy->dstMemoryType) &&
            lacks_slices(dst, copy->dstPitch, copy->dstHeight, copy)) ||
           (is_of_device(copy->srcMemoryType) &&
            lacks_slices(src, copy->srcPitch, copy->srcHeight, copy));
}

bool range_check_fails_peers(const CUDA_MEMCPY3D_PEER *copy)
{
    CUDA_MEMCPY3D plain;
    _Static_assert(sizeof(plain) == sizeof(*copy), "contexts stand in reserved words");
    if (copy) {
        memcpy(&plain, copy, sizeof(plain));
    }
    return copy && range_check_fails_3d(&plain);
}

/* ---- nodes of graphs ---- */

bool range_check_fails_set(const CUDA_MEMSET_NODE_PARAMS *set)
{
    return set &&
           range_check_fails_rows(set->dst, set->pitch, set->width * set->elementSize, set->height);
}

bool range_check_fails_node(const CUgraphNodeParams *node)
{
    if (!node || node->type != CU_GRAPH_NODE_TYPE_MEMSET) {
        return node && node->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
               range_check_fails_3d(&node->memcpy.copyParams);
    }
    const CUDA_MEMSET_NODE_PARAMS_v2 *set = &node->memset;
    return range_check_fails_rows(set->dst, set->pitch, set->width * set->elementSize, set->height);
}
