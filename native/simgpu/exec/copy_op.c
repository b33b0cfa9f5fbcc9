#include "simgpu/exec/copy_op.h"

#include "simgpu/base/entry.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/array.h"
#include "simgpu/mem/peer_access.h"

/* Finds the memory of one side: the GPU's number, or -1 for the host. */
static CUresult locate(uint64_t address, uint64_t bytes, enum sg_copy_side side, int *gpu)
{
    *gpu = -1;
    if (side == SG_SIDE_HOST) {
        return CUDA_SUCCESS;
    }
    if (sg_is_device_range(address, bytes)) {
        *gpu = sg_gpu_of_address(address);
        return CUDA_SUCCESS;
    }
    if (sg_address_is_device(address)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Pinned memory has a device address; all other host memory is only allowed on a host side. */
    return side == SG_SIDE_EITHER || sg_is_pinned(address, bytes) ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
}

/* Bytes from the first to the last, with the gaps between rows. */
static uint64_t extent(const struct sg_copy *copy, uint64_t pitch, uint64_t slice)
{
    return (copy->depth - 1) * slice + (copy->height - 1) * pitch + copy->width;
}

CUresult sg_copy_resolve(struct sg_copy *copy, struct sg_copy_sides sides, unsigned gpu,
                         struct sg_copy_users users)
{
    int dst_gpu, src_gpu;
    uint64_t dst_extent = extent(copy, copy->dst_pitch, copy->dst_slice);
    uint64_t src_extent = extent(copy, copy->src_pitch, copy->src_slice);
    if (!copy->dst || !copy->src) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(locate(copy->dst, dst_extent, sides.dst, &dst_gpu));
    SG_TRY(locate(copy->src, src_extent, sides.src, &src_gpu));
    if ((dst_gpu >= 0 && !sg_has_access(copy->dst, dst_extent, users.dst, 1)) ||
        (src_gpu >= 0 && !sg_has_access(copy->src, src_extent, users.src, 0))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    copy->gpu = gpu;
    copy->direction = SG_H2H;
    if (dst_gpu >= 0 && src_gpu >= 0) {
        copy->direction = dst_gpu == src_gpu ? SG_D2D : SG_P2P;
        copy->gpu = (unsigned)dst_gpu;
        copy->other_gpu = (unsigned)src_gpu;
    } else if (dst_gpu >= 0) {
        copy->direction = SG_H2D;
        copy->gpu = (unsigned)dst_gpu;
        copy->pageable = !sg_is_pinned(copy->src, src_extent);
    } else if (src_gpu >= 0) {
        copy->direction = SG_D2H;
        copy->gpu = (unsigned)src_gpu;
        copy->pageable = !sg_is_pinned(copy->dst, dst_extent);
    }
    return CUDA_SUCCESS;
}

static CUresult side_of(CUmemorytype type, const void *host, CUdeviceptr device, uint64_t *base,
                        enum sg_copy_side *side)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *base = (uint64_t)(uintptr_t)host;
        *side = SG_SIDE_HOST;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        *base = device;
        *side = SG_SIDE_DEVICE;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        *base = device;
        *side = SG_SIDE_EITHER;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY: /* in_array finds the address */
        *side = SG_SIDE_DEVICE;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult in_array(CUarray array, size_t x, size_t y, size_t z, const struct sg_copy *copy,
                         uint64_t *base, size_t *pitch, size_t *slice)
{
    *base = sg_array_has(array, x, y, z, copy->width, copy->height, copy->depth);
    if (!*base) {
        return sg_array(array) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    *pitch = array->pitch;
    *slice = array->slice;
    return CUDA_SUCCESS;
}

CUresult sg_copy_describe(const CUDA_MEMCPY3D *params, struct sg_copy *out,
                          struct sg_copy_sides *sides)
{
    struct sg_copy copy = {.width = params->WidthInBytes,
                           .height = params->Height,
                           .depth = params->Depth,
                           .dst_pitch = params->dstPitch ? params->dstPitch : params->WidthInBytes,
                           .src_pitch = params->srcPitch ? params->srcPitch : params->WidthInBytes};
    SG_TRY(
        side_of(params->dstMemoryType, params->dstHost, params->dstDevice, &copy.dst, &sides->dst));
    SG_TRY(
        side_of(params->srcMemoryType, params->srcHost, params->srcDevice, &copy.src, &sides->src));
    copy.dst_slice = copy.dst_pitch * (params->dstHeight ? params->dstHeight : params->Height);
    copy.src_slice = copy.src_pitch * (params->srcHeight ? params->srcHeight : params->Height);
    if (params->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        SG_TRY(in_array(params->dstArray, params->dstXInBytes, params->dstY, params->dstZ, &copy,
                        &copy.dst, &copy.dst_pitch, &copy.dst_slice));
    }
    if (params->srcMemoryType == CU_MEMORYTYPE_ARRAY) {
        SG_TRY(in_array(params->srcArray, params->srcXInBytes, params->srcY, params->srcZ, &copy,
                        &copy.src, &copy.src_pitch, &copy.src_slice));
    }
    if ((params->Height > 1 || params->Depth > 1) &&
        (copy.dst_pitch < params->WidthInBytes + params->dstXInBytes ||
         copy.src_pitch < params->WidthInBytes + params->srcXInBytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    copy.dst += params->dstZ * copy.dst_slice + params->dstY * copy.dst_pitch + params->dstXInBytes;
    copy.src += params->srcZ * copy.src_slice + params->srcY * copy.src_pitch + params->srcXInBytes;
    *out = copy;
    return CUDA_SUCCESS;
}

CUresult sg_copy_op(struct sg_op **out, const CUDA_MEMCPY3D *params, unsigned gpu)
{
    struct sg_copy copy;
    struct sg_copy_sides sides;
    SG_TRY(sg_copy_describe(params, &copy, &sides));
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_copy_resolve(&copy, sides, gpu, (struct sg_copy_users){gpu, gpu}));
    *out = sg_op_new(&sg_kind_copy);
    (*out)->copy = copy;
    return CUDA_SUCCESS;
}
