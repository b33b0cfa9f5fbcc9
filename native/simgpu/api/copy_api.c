/* The entry points that copy memory. All of them submit work of one kind (exec/copy_op.h). */
#include <stdlib.h>
#include <string.h>

#include "simgpu/base/handles.h"
#include "simgpu/capture/submit.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/copy_fail.h"
#include "simgpu/exec/copy_op.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

#define STAGED_BYTES (64u << 10) /* up to this size the driver stages pageable bytes in the call */

enum when { SYNC, ASYNC };

/* The contexts that a peer copy names. Other copies use their stream's context for both. */
struct ends {
    CUcontext dst, src;
};

static CUresult users_of(const struct ends *ends, CUstream stream, struct sg_copy_users *users)
{
    unsigned own = stream->context->gpu;
    *users = (struct sg_copy_users){own, own};
    if (ends) {
        if (!sg_handle_is(ends->dst, SG_CONTEXT_TYPE) ||
            !sg_handle_is(ends->src, SG_CONTEXT_TYPE)) {
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        *users = (struct sg_copy_users){ends->dst->gpu, ends->src->gpu};
    }
    return CUDA_SUCCESS;
}

static CUresult submit(struct sg_copy copy, struct sg_copy_sides sides, CUstream handle,
                       enum when when, const struct ends *ends)
{
    CUstream stream;
    struct sg_copy_users users;
    SG_TRY(sg_stream_of(handle, &stream));
    SG_TRY(users_of(ends, stream, &users));
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) {
        return CUDA_SUCCESS;
    }
    SG_TRY(sg_copy_resolve(&copy, sides, stream->context->gpu, users));
    SG_TRY(sg_copy_failure(copy.direction));
    if (when == SYNC) {
        SG_TRY(sg_capture_forbids_legacy(stream));
        SG_TRY(sg_capture_forbids());
    }

    /* Copies between device addresses return before they are done, also those without Async. */
    int wait = when == SYNC && copy.direction != SG_D2D && copy.direction != SG_P2P;
    struct sg_op *op = sg_op_new(&sg_kind_copy);
    if (when == ASYNC && copy.pageable && !stream->capture) {
        if (copy.direction == SG_H2D && copy.width <= STAGED_BYTES && copy.height == 1 &&
            copy.depth == 1) {
            copy.staged = malloc(copy.width);
            memcpy(copy.staged, (const void *)(uintptr_t)copy.src, copy.width);
            copy.src = (uint64_t)(uintptr_t)copy.staged;
        } else {
            /* the program may change its pages after the call, so the call lasts until the copy is done */
            wait = 1;
        }
    }
    op->copy = copy;
    return wait ? sg_submit_and_wait(stream, op) : sg_submit(stream, op);
}

static CUresult linear(uint64_t dst, enum sg_copy_side dst_side, uint64_t src,
                       enum sg_copy_side src_side, size_t bytes, CUstream stream, enum when when)
{
    struct sg_copy copy = {.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
    return submit(copy, (struct sg_copy_sides){dst_side, src_side}, stream, when, NULL);
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return linear(dst, SG_SIDE_EITHER, src, SG_SIDE_EITHER, bytes, NULL, SYNC);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return linear(dst, SG_SIDE_EITHER, src, SG_SIDE_EITHER, bytes, stream, ASYNC);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    return linear(dst, SG_SIDE_DEVICE, ADDRESS(src), SG_SIDE_HOST, bytes, NULL, SYNC);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    return linear(dst, SG_SIDE_DEVICE, ADDRESS(src), SG_SIDE_HOST, bytes, stream, ASYNC);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
    return linear(ADDRESS(dst), SG_SIDE_HOST, src, SG_SIDE_DEVICE, bytes, NULL, SYNC);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return linear(ADDRESS(dst), SG_SIDE_HOST, src, SG_SIDE_DEVICE, bytes, stream, ASYNC);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return linear(dst, SG_SIDE_DEVICE, src, SG_SIDE_DEVICE, bytes, NULL, SYNC);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return linear(dst, SG_SIDE_DEVICE, src, SG_SIDE_DEVICE, bytes, stream, ASYNC);
}

static CUresult between(CUdeviceptr dst, CUdeviceptr src, size_t bytes, struct ends ends,
                        CUstream stream, enum when when)
{
    struct sg_copy copy = {.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
    return submit(copy, (struct sg_copy_sides){SG_SIDE_DEVICE, SG_SIDE_DEVICE}, stream, when,
                  &ends);
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

/* Checks all copies of a batch before the first is submitted. *failed gets the index of a wrong one. */
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
            sizes[i]
                ? sg_copy_resolve(&copy, (struct sg_copy_sides){SG_SIDE_EITHER, SG_SIDE_EITHER},
                                  gpu, (struct sg_copy_users){gpu, gpu})
                : CUDA_SUCCESS;
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
        SG_TRY(linear(dsts[i], SG_SIDE_EITHER, srcs[i], SG_SIDE_EITHER, sizes[i], stream, ASYNC));
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

static CUresult volume(const CUDA_MEMCPY3D *c, CUstream stream, enum when when,
                       const struct ends *ends)
{
    struct sg_copy copy;
    struct sg_copy_sides sides;
    SG_TRY(sg_copy_describe(c, &copy, &sides));
    return submit(copy, sides, stream, when, ends);
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

/* The peer structure has the same layout; contexts stand where the other has reserved words. */
_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER), "one layout");

/* A host side needs no context. */
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
