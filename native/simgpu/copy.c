/* The entry points that copy. All of them become one kind of work: rows of bytes from here to there. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/address.h"
#include "simgpu/array.h"
#include "simgpu/capture.h"
#include "simgpu/inspect.h"
#include "simgpu/stream.h"

#define STAGED_BYTES (64u << 10) /* up to here the driver takes the bytes over in the call */

enum side { HOST, DEVICE, EITHER };
enum when { SYNC, ASYNC };

/* Where a side of a copy is: the GPU's number, or -1 for host memory. */
static CUresult locate(uint64_t address, uint64_t bytes, enum side side, int *gpu)
{
    *gpu = -1;
    if (side == HOST) {
        return CUDA_SUCCESS;
    }
    if (sg_is_device_range(address, bytes)) {
        *gpu = sg_gpu_of_address(address);
        return CUDA_SUCCESS;
    }
    if (sg_address_is_device(address)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Pinned memory has a device address; anything else must have been meant for the host. */
    return side == EITHER || sg_is_pinned(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* From the first byte to the last, gaps between rows included. */
static uint64_t extent(const struct sg_copy *copy, uint64_t pitch, uint64_t slice)
{
    return (copy->depth - 1) * slice + (copy->height - 1) * pitch + copy->width;
}

/* The GPU that each side is used from: the stream's, or that of a context that the program named. */
struct users {
    unsigned dst, src;
};

/* Which way the bytes go, and whether the program may name them. */
static CUresult resolve(struct sg_copy *copy, enum side dst_side, enum side src_side, unsigned gpu,
                        struct users users)
{
    int dst_gpu, src_gpu;
    uint64_t dst_extent = extent(copy, copy->dst_pitch, copy->dst_slice);
    uint64_t src_extent = extent(copy, copy->src_pitch, copy->src_slice);
    if (!copy->dst || !copy->src) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(locate(copy->dst, dst_extent, dst_side, &dst_gpu));
    SG_TRY(locate(copy->src, src_extent, src_side, &src_gpu));
    if ((dst_gpu >= 0 && !sg_is_open_to(copy->dst, dst_extent, users.dst, 1)) ||
        (src_gpu >= 0 && !sg_is_open_to(copy->src, src_extent, users.src, 0))) {
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

/* The contexts that a copy between peers names; the two of another are its stream's. */
struct ends {
    CUcontext dst, src;
};

static CUresult users_of(const struct ends *ends, CUstream stream, struct users *users)
{
    unsigned own = stream->context->gpu;
    *users = (struct users){own, own};
    if (ends) {
        if (!sg_handle_is(ends->dst, SG_CONTEXT_TYPE) ||
            !sg_handle_is(ends->src, SG_CONTEXT_TYPE)) {
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        *users = (struct users){ends->dst->gpu, ends->src->gpu};
    }
    return CUDA_SUCCESS;
}

static CUresult submit(struct sg_copy copy, enum side dst_side, enum side src_side, CUstream handle,
                       enum when when, const struct ends *ends)
{
    CUstream stream;
    struct users users;
    SG_TRY(sg_stream_of(handle, &stream));
    SG_TRY(users_of(ends, stream, &users));
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) {
        return CUDA_SUCCESS;
    }
    SG_TRY(resolve(&copy, dst_side, src_side, stream->context->gpu, users));
    SG_TRY(sg_copy_failure(copy.direction));
    if (when == SYNC) {
        SG_TRY(sg_capture_forbids_legacy(stream));
        SG_TRY(sg_capture_forbids());
    }

    /* Copies inside a GPU do not keep the host waiting, whatever they are called. */
    int wait = when == SYNC && copy.direction != SG_D2D && copy.direction != SG_P2P;
    struct sg_op *op = sg_op_new(SG_OP_COPY);
    if (when == ASYNC && copy.pageable && !stream->capture) {
        if (copy.direction == SG_H2D && copy.width <= STAGED_BYTES && copy.height == 1 &&
            copy.depth == 1) {
            copy.staged = malloc(copy.width);
            memcpy(copy.staged, (const void *)(uintptr_t)copy.src, copy.width);
            copy.src = (uint64_t)(uintptr_t)copy.staged;
        } else {
            wait = 1; /* the host's pages may change after the call: it lasts as long as the copy */
        }
    }
    op->copy = copy;
    return wait ? sg_submit_and_wait(stream, op) : sg_submit(stream, op);
}

static CUresult linear(uint64_t dst, enum side dst_side, uint64_t src, enum side src_side,
                       size_t bytes, CUstream stream, enum when when)
{
    struct sg_copy copy = {.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
    return submit(copy, dst_side, src_side, stream, when, NULL);
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return linear(dst, EITHER, src, EITHER, bytes, NULL, SYNC);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return linear(dst, EITHER, src, EITHER, bytes, stream, ASYNC);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    return linear(dst, DEVICE, ADDRESS(src), HOST, bytes, NULL, SYNC);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    return linear(dst, DEVICE, ADDRESS(src), HOST, bytes, stream, ASYNC);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
    return linear(ADDRESS(dst), HOST, src, DEVICE, bytes, NULL, SYNC);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return linear(ADDRESS(dst), HOST, src, DEVICE, bytes, stream, ASYNC);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return linear(dst, DEVICE, src, DEVICE, bytes, NULL, SYNC);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return linear(dst, DEVICE, src, DEVICE, bytes, stream, ASYNC);
}

static CUresult between(CUdeviceptr dst, CUdeviceptr src, size_t bytes, struct ends ends,
                        CUstream stream, enum when when)
{
    struct sg_copy copy = {.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
    return submit(copy, DEVICE, DEVICE, stream, when, &ends);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                      CUcontext src_context, size_t bytes)
{
    return between(dst, src, bytes, (struct ends){dst_context, src_context}, NULL, SYNC);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                           CUcontext src_context, size_t bytes, CUstream stream)
{
    return between(dst, src, bytes, (struct ends){dst_context, src_context}, stream, ASYNC);
}

/* All copies of a batch, before any is done; *failed is the one that cannot be. */
static CUresult check_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                            size_t count, size_t *failed, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    unsigned gpu = stream->context->gpu;
    for (size_t i = 0; i < count; i++) {
        struct sg_copy copy = {
            .dst = dsts[i], .src = srcs[i], .width = sizes[i], .height = 1, .depth = 1};
        CUresult result =
            sizes[i] ? resolve(&copy, EITHER, EITHER, gpu, (struct users){gpu, gpu}) : CUDA_SUCCESS;
        if (result) {
            *failed = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count,
                            size_t *failed, CUstream stream)
{
    size_t unasked;
    failed = failed ? failed : &unasked;
    (void)attributes, (void)indices, (void)attribute_count;
    *failed = SIZE_MAX;
    if (!dsts || !srcs || !sizes || !count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_batch(dsts, srcs, sizes, count, failed, stream));
    for (size_t i = 0; i < count; i++) {
        SG_TRY(linear(dsts[i], EITHER, srcs[i], EITHER, sizes[i], stream, ASYNC));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *indices,
                               size_t attribute_count, CUstream stream)
{
    return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, indices, attribute_count, NULL,
                              stream);
}

/* ---- two and three dimensions ---- */

static CUresult side_of(CUmemorytype type, const void *host, CUdeviceptr device, uint64_t *base,
                        enum side *side)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *base = ADDRESS(host);
        *side = HOST;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        *base = device;
        *side = DEVICE;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        *base = device;
        *side = EITHER;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY: /* in_array tells where */
        *side = DEVICE;
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

static CUresult describe(const CUDA_MEMCPY3D *c, struct sg_copy *out, enum side *dst_side,
                         enum side *src_side)
{
    struct sg_copy copy = {.width = c->WidthInBytes,
                           .height = c->Height,
                           .depth = c->Depth,
                           .dst_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes,
                           .src_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes};
    SG_TRY(side_of(c->dstMemoryType, c->dstHost, c->dstDevice, &copy.dst, dst_side));
    SG_TRY(side_of(c->srcMemoryType, c->srcHost, c->srcDevice, &copy.src, src_side));
    copy.dst_slice = copy.dst_pitch * (c->dstHeight ? c->dstHeight : c->Height);
    copy.src_slice = copy.src_pitch * (c->srcHeight ? c->srcHeight : c->Height);
    if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        SG_TRY(in_array(c->dstArray, c->dstXInBytes, c->dstY, c->dstZ, &copy, &copy.dst,
                        &copy.dst_pitch, &copy.dst_slice));
    }
    if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY) {
        SG_TRY(in_array(c->srcArray, c->srcXInBytes, c->srcY, c->srcZ, &copy, &copy.src,
                        &copy.src_pitch, &copy.src_slice));
    }
    if ((c->Height > 1 || c->Depth > 1) && (copy.dst_pitch < c->WidthInBytes + c->dstXInBytes ||
                                            copy.src_pitch < c->WidthInBytes + c->srcXInBytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    copy.dst += c->dstZ * copy.dst_slice + c->dstY * copy.dst_pitch + c->dstXInBytes;
    copy.src += c->srcZ * copy.src_slice + c->srcY * copy.src_pitch + c->srcXInBytes;
    *out = copy;
    return CUDA_SUCCESS;
}

static CUresult volume(const CUDA_MEMCPY3D *c, CUstream stream, enum when when,
                       const struct ends *ends)
{
    struct sg_copy copy;
    enum side dst_side, src_side;
    SG_TRY(describe(c, &copy, &dst_side, &src_side));
    return submit(copy, dst_side, src_side, stream, when, ends);
}

CUresult sg_copy_op(struct sg_op **out, const CUDA_MEMCPY3D *c, unsigned gpu)
{
    struct sg_copy copy;
    enum side dst_side, src_side;
    SG_TRY(describe(c, &copy, &dst_side, &src_side));
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(resolve(&copy, dst_side, src_side, gpu, (struct users){gpu, gpu}));
    *out = sg_op_new(SG_OP_COPY);
    (*out)->copy = copy;
    return CUDA_SUCCESS;
}

static CUresult plane(const CUDA_MEMCPY2D *c, CUstream stream, enum when when)
{
    if (!c) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_MEMCPY3D all = {
        .srcXInBytes = c->srcXInBytes,
        .srcY = c->srcY,
        .srcMemoryType = c->srcMemoryType,
        .srcHost = c->srcHost,
        .srcDevice = c->srcDevice,
        .srcArray = c->srcArray,
        .srcPitch = c->srcPitch,
        .dstXInBytes = c->dstXInBytes,
        .dstY = c->dstY,
        .dstMemoryType = c->dstMemoryType,
        .dstHost = c->dstHost,
        .dstDevice = c->dstDevice,
        .dstArray = c->dstArray,
        .dstPitch = c->dstPitch,
        .WidthInBytes = c->WidthInBytes,
        .Height = c->Height,
        .Depth = 1,
    };
    return volume(&all, stream, when, NULL);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return plane(copy, NULL, SYNC); }

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) { return plane(copy, NULL, SYNC); }

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return plane(copy, stream, ASYNC);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    return copy ? volume(copy, NULL, SYNC, NULL) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy ? volume(copy, stream, ASYNC, NULL) : CUDA_ERROR_INVALID_VALUE;
}

/* The peer form has the same layout, with contexts where the other has reserved words. */
_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER), "one layout");

/* A side that is no GPU's may leave its context out. */
static CUresult volume_between(const CUDA_MEMCPY3D_PEER *c, CUstream stream, enum when when)
{
    CUDA_MEMCPY3D plain;
    SG_CONTEXT(context);
    if (!c) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct ends ends = {c->dstMemoryType == CU_MEMORYTYPE_HOST ? context : c->dstContext,
                        c->srcMemoryType == CU_MEMORYTYPE_HOST ? context : c->srcContext};
    memcpy(&plain, c, sizeof plain);
    return volume(&plain, stream, when, &ends);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy) { return volume_between(copy, NULL, SYNC); }

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
    return volume_between(copy, stream, ASYNC);
}
