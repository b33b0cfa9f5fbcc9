#include "shim/bounds.h"

#include <string.h>

#include "shim/blocks.h"
#include "shim/control.h"
#include "shim/devices.h"
#include "shim/pool.h"
#include "shim/slab.h"
#include "shim/spares.h"

CUresult bounds_refusal(void)
{
    CUresult result = device_check();
    return result ? result : CUDA_ERROR_INVALID_VALUE;
}

enum owner { NOBODY, A_POOL, AN_ALLOCATION };

/* Whose page it is that an address lies in, and the allocation there, which may have no bytes. */
static enum owner find(CUdeviceptr address, CUdeviceptr *base, size_t *size)
{
    uint64_t number;
    LOCK_SCOPE(&blocks_lock);
    const struct block *block = blocks_find(address);
    if (!block && spares_have(address)) { /* the driver knows these addresses still */
        *base = address;
        *size = 0;
        return AN_ALLOCATION;
    }
    if (!block || block->segment) {
        return block ? A_POOL : NOBODY;
    }
    *base = block->base;
    *size = block->bytes;
    if (block->slab && !slab_range(block, address, base, size, &number)) {
        *size = 0;
    }
    return AN_ALLOCATION;
}

bool bounds_lack(CUdeviceptr address, uint64_t bytes)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    if (!address || !bytes || !control_is_active()) {
        return false;
    }
    enum owner owner = find(address, &base, &size);
    if (owner == NOBODY) {
        return false;
    }
    if (owner == A_POOL && !pool_range(address, &base, &size)) {
        return true;
    }
    return address - base >= size || bytes > size - (address - base);
}

bool bounds_lack_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                       size_t count, size_t *failed)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++) {
        if (bounds_lack(dsts[i], sizes[i]) || bounds_lack(srcs[i], sizes[i])) {
            if (failed) {
                *failed = i;
            }
            return true;
        }
    }
    return false;
}

bool bounds_lack_rows(CUdeviceptr address, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes;
    if (!width || !height || (height > 1 && pitch < width) ||
        __builtin_mul_overflow(height - 1, pitch, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes)) {
        return false;
    }
    return bounds_lack(address, bytes);
}

static bool is_of_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

bool bounds_lack_flat(const CUDA_MEMCPY2D *copy)
{
    if (!copy) {
        return false;
    }
    CUdeviceptr dst = copy->dstDevice + copy->dstY * copy->dstPitch + copy->dstXInBytes;
    CUdeviceptr src = copy->srcDevice + copy->srcY * copy->srcPitch + copy->srcXInBytes;
    return (is_of_device(copy->dstMemoryType) &&
            bounds_lack_rows(dst, copy->dstPitch, copy->WidthInBytes, copy->Height)) ||
           (is_of_device(copy->srcMemoryType) &&
            bounds_lack_rows(src, copy->srcPitch, copy->WidthInBytes, copy->Height));
}

/* `rows` is how many lie between a slice and the next. */
static bool lacks_slices(CUdeviceptr address, uint64_t pitch, uint64_t rows,
                         const CUDA_MEMCPY3D *copy)
{
    if (!copy->Depth || !copy->Height || (copy->Depth > 1 && rows < copy->Height)) {
        return false;
    }
    return bounds_lack_rows(address, pitch, copy->WidthInBytes,
                            (copy->Depth - 1) * rows + copy->Height);
}

bool bounds_lack_deep(const CUDA_MEMCPY3D *copy)
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

bool bounds_lack_peers(const CUDA_MEMCPY3D_PEER *copy)
{
    CUDA_MEMCPY3D plain;
    _Static_assert(sizeof(plain) == sizeof(*copy), "contexts stand in reserved words");
    if (copy) {
        memcpy(&plain, copy, sizeof(plain));
    }
    return copy && bounds_lack_deep(&plain);
}

/* ---- nodes of graphs ---- */

bool bounds_lack_set(const CUDA_MEMSET_NODE_PARAMS *set)
{
    return set &&
           bounds_lack_rows(set->dst, set->pitch, set->width * set->elementSize, set->height);
}

bool bounds_lack_node(const CUgraphNodeParams *node)
{
    if (!node || node->type != CU_GRAPH_NODE_TYPE_MEMSET) {
        return node && node->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
               bounds_lack_deep(&node->memcpy.copyParams);
    }
    const CUDA_MEMSET_NODE_PARAMS_v2 *set = &node->memset;
    return bounds_lack_rows(set->dst, set->pitch, set->width * set->elementSize, set->height);
}
