/* The entry points that fill memory with a value. */
#include "simgpu/base/entry.h"
#include "simgpu/capture/submit.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/peer_access.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

static CUresult submit(uint64_t dst, size_t pitch, unsigned value, unsigned element, size_t width,
                       size_t height, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (width == 0 || height == 0) {
        return CUDA_SUCCESS;
    }
    uint64_t extent = (height - 1) * pitch + width * element;
    if (dst % element || (height > 1 && pitch < width * element)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_is_device_range(dst, extent) && !sg_is_pinned(dst, extent)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_has_access(dst, extent, stream->context->gpu, 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(&sg_kind_memset);
    op->memset = (struct sg_memset){.dst = dst,
                                    .width = width,
                                    .height = height,
                                    .pitch = pitch,
                                    .value = value,
                                    .element_bytes = element};
    return sg_submit(stream, op);
}

#define SETS(bits, type)                                                                        \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, type value, size_t count)                    \
    {                                                                                           \
        return submit(dst, 0, value, bits / 8, count, 1, NULL);                                 \
    }                                                                                           \
    CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t count, CUstream stream) \
    {                                                                                           \
        return submit(dst, 0, value, bits / 8, count, 1, stream);                               \
    }                                                                                           \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width,    \
                                    size_t height)                                              \
    {                                                                                           \
        return submit(dst, pitch, value, bits / 8, width, height, NULL);                        \
    }                                                                                           \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width,  \
                                      size_t height, CUstream stream)                           \
    {                                                                                           \
        return submit(dst, pitch, value, bits / 8, width, height, stream);                      \
    }

SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned int)
