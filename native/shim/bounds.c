#include "shim/bounds.h"

#include "shim/blocks.h"
#include "shim/control.h"
#include "shim/devices.h"
#include "shim/slab.h"

CUresult bounds_refusal(void)
{
    CUresult result = device_check();
    return result ? result : CUDA_ERROR_INVALID_VALUE;
}

bool bounds_lack(CUdeviceptr address, uint64_t bytes)
{
    if (!address || !bytes || !control_is_active()) {
        return false;
    }
    LOCK_SCOPE(&blocks_lock);
    const struct block *block = blocks_find(address);
    CUdeviceptr base = block ? block->base : 0;
    size_t size = block ? block->bytes : 0;
    uint64_t number;
    if (!block || block->segment) { /* where pools' pieces end, nothing but their pool knows */
        return false;
    }
    if (block->slab && !slab_range(block, address, &base, &size, &number)) {
        return true;
    }
    return address - base >= size || bytes > size - (address - base);
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
