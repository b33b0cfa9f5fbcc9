/* Copies and memory sets that reach memory of another GPU than that of the stream they are given to.
 *
 * The driver finds memory of cuMemAlloc from everywhere. Ours is mapped, and found only from where access was
 * given: so what copies from GPU to GPU is made a copy between peers, with a context on each side, and what has
 * one side on a GPU is done in a context of that one, in the order of the stream it was given to.
 * CROSS_<name> says of a call's arguments what they reach; a call without one is done as it is.
 */
#ifndef MOIETY_SHIM_MEM_PEER_COPY_H
#define MOIETY_SHIM_MEM_PEER_COPY_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct peer_copy {
    CUresult result; /* of what was done already */
    CUcontext
        context;    /* what it is done in instead, current meanwhile; NULL: it is done as it is */
    CUcontext home; /* that of the stream that it was given to */
    CUstream given;
    CUstream *stream; /* the call's own, which is `other` meanwhile; NULL: it has none, and waits */
    CUstream before, other;
};

/* The caller is inside the gate. Each of these is true if the call was done, with its result, and false if the
 * caller does it; `stream` (NULL: the call has none) may be another one then, and peer_copy_end follows.
 * `given` is what it was, or the default stream that the call is about. */
bool peer_copy_single(struct peer_copy *peer_copy, CUdeviceptr address, CUstream given,
                      CUstream *stream);
bool peer_copy_linear(struct peer_copy *peer_copy, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                      CUstream given, CUstream *stream);
bool peer_copy_2d(struct peer_copy *peer_copy, const CUDA_MEMCPY2D *copy, CUstream given,
                  CUstream *stream);
bool peer_copy_3d(struct peer_copy *peer_copy, const CUDA_MEMCPY3D *copy, CUstream given,
                  CUstream *stream);
/* All of a batch, one after the other, if one of them reaches another GPU; *failed (may be NULL) is which could
 * not be done. */
bool peer_copy_batch(struct peer_copy *peer_copy, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                     const size_t *bytes, size_t count, size_t *failed, CUstream given);
void peer_copy_end(struct peer_copy *peer_copy, CUresult *result);

/* clang-format off: this is a table */
#define PEER_COPY(call) ~, devices_several && (call)
#define CROSS_cuMemcpy(where) PEER_COPY(peer_copy_linear(&peer_copy, dst, src, bytes, where, NULL))
#define CROSS_cuMemcpyAsync(where) \
    PEER_COPY(peer_copy_linear(&peer_copy, dst, src, bytes, where, &stream))
#define CROSS_cuMemcpyWithAttributesAsync CROSS_cuMemcpyAsync
#define CROSS_cuMemcpyDtoD_v2(where) \
    PEER_COPY(peer_copy_linear(&peer_copy, dst_device, src_device, bytes, where, NULL))
#define CROSS_cuMemcpyDtoDAsync_v2(where) \
    PEER_COPY(peer_copy_linear(&peer_copy, dst_device, src_device, bytes, where, &stream))
#define CROSS_cuMemcpyHtoD_v2(where) \
    PEER_COPY(peer_copy_single(&peer_copy, dst_device, where, NULL))
#define CROSS_cuMemcpyHtoDAsync_v2(where) \
    PEER_COPY(peer_copy_single(&peer_copy, dst_device, where, &stream))
#define CROSS_cuMemcpyDtoH_v2(where) \
    PEER_COPY(peer_copy_single(&peer_copy, src_device, where, NULL))
#define CROSS_cuMemcpyDtoHAsync_v2(where) \
    PEER_COPY(peer_copy_single(&peer_copy, src_device, where, &stream))
#define CROSS_cuMemcpy2D_v2(where) PEER_COPY(peer_copy_2d(&peer_copy, copy, where, NULL))
#define CROSS_cuMemcpy2DUnaligned_v2 CROSS_cuMemcpy2D_v2
#define CROSS_cuMemcpy2DAsync_v2(where) PEER_COPY(peer_copy_2d(&peer_copy, copy, where, &stream))
#define CROSS_cuMemcpy3D_v2(where) PEER_COPY(peer_copy_3d(&peer_copy, copy, where, NULL))
#define CROSS_cuMemcpy3DAsync_v2(where) PEER_COPY(peer_copy_3d(&peer_copy, copy, where, &stream))
#define CROSS_cuMemcpyBatchAsync(where) \
    PEER_COPY(peer_copy_batch(&peer_copy, dsts, srcs, sizes, count, fail_idx, where))
#define CROSS_cuMemcpyBatchAsync_v2(where) \
    PEER_COPY(peer_copy_batch(&peer_copy, dsts, srcs, sizes, count, NULL, where))
#define CROSS_cuMemsetD8_v2(where) PEER_COPY(peer_copy_single(&peer_copy, dst_device, where, NULL))
#define CROSS_cuMemsetD16_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD32_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD2D8_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD2D16_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD2D32_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD8Async(where) \
    PEER_COPY(peer_copy_single(&peer_copy, dst_device, where, &stream))
#define CROSS_cuMemsetD16Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD32Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD2D8Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD2D16Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD2D32Async CROSS_cuMemsetD8Async
/* clang-format on */

#endif
