/* Copies and memory sets that reach memory of another GPU than that of the stream they are given to.
 *
 * The driver finds memory of cuMemAlloc from everywhere. Ours is mapped, and found only from where access was
 * given: so what copies from GPU to GPU is made a copy between peers, with a context on each side, and what has
 * one side on a GPU is done in a context of that one, in the order of the stream it was given to.
 * CROSS_<name> says of a call's arguments what they reach; a call without one is done as it is.
 */
#ifndef MOIETY_SHIM_CROSSING_H
#define MOIETY_SHIM_CROSSING_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/cuda_abi.h"
#include "shim/devices.h"

struct crossing {
    CUresult result; /* of what was done already */
    CUcontext
        context;    /* what it is done in instead, current meanwhile; NULL: it is done as it is */
    CUcontext home; /* that of the stream that it was given to */
    CUstream given;
    CUstream *stream; /* the call's own, which is `other` meanwhile; NULL: it has none, and waits */
    CUstream before, other;
};

/* The caller is inside the gate. Each of these is true if the call was done, with its result, and false if the
 * caller does it; `stream` (NULL: the call has none) may be another one then, and crossing_end follows.
 * `given` is what it was, or the default stream that the call is about. */
bool crossing_reach(struct crossing *crossing, CUdeviceptr address, CUstream given,
                    CUstream *stream);
bool crossing_copy(struct crossing *crossing, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                   CUstream given, CUstream *stream);
bool crossing_flat(struct crossing *crossing, const CUDA_MEMCPY2D *copy, CUstream given,
                   CUstream *stream);
bool crossing_deep(struct crossing *crossing, const CUDA_MEMCPY3D *copy, CUstream given,
                   CUstream *stream);
/* All of a batch, one after the other, if one of them reaches another GPU; *failed (may be NULL) is which could
 * not be done. */
bool crossing_batch(struct crossing *crossing, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                    const size_t *bytes, size_t count, size_t *failed, CUstream given);
void crossing_end(struct crossing *crossing, CUresult *result);

/* A context that a graph's node can work in, given the one that the program named for it; for a copy between
 * GPUs, the memory is opened to that one. */
CUcontext crossing_context(CUcontext named, CUdeviceptr dst, CUdeviceptr src);
CUcontext crossing_context_of(CUcontext named, const CUDA_MEMCPY3D *copy);
/* The same for a node of any kind, in its parameters; what was there before. */
CUcontext crossing_node(CUgraphNodeParams *node);
void crossing_node_end(CUgraphNodeParams *node, CUcontext before);

/* clang-format off: this is a table */
#define CROSSING(call) ~, devices_several && (call)
#define CROSS_cuMemcpy(where) CROSSING(crossing_copy(&crossing, dst, src, bytes, where, NULL))
#define CROSS_cuMemcpyAsync(where) \
    CROSSING(crossing_copy(&crossing, dst, src, bytes, where, &stream))
#define CROSS_cuMemcpyWithAttributesAsync CROSS_cuMemcpyAsync
#define CROSS_cuMemcpyDtoD_v2(where) \
    CROSSING(crossing_copy(&crossing, dst_device, src_device, bytes, where, NULL))
#define CROSS_cuMemcpyDtoDAsync_v2(where) \
    CROSSING(crossing_copy(&crossing, dst_device, src_device, bytes, where, &stream))
#define CROSS_cuMemcpyHtoD_v2(where) CROSSING(crossing_reach(&crossing, dst_device, where, NULL))
#define CROSS_cuMemcpyHtoDAsync_v2(where) \
    CROSSING(crossing_reach(&crossing, dst_device, where, &stream))
#define CROSS_cuMemcpyDtoH_v2(where) CROSSING(crossing_reach(&crossing, src_device, where, NULL))
#define CROSS_cuMemcpyDtoHAsync_v2(where) \
    CROSSING(crossing_reach(&crossing, src_device, where, &stream))
#define CROSS_cuMemcpy2D_v2(where) CROSSING(crossing_flat(&crossing, copy, where, NULL))
#define CROSS_cuMemcpy2DUnaligned_v2 CROSS_cuMemcpy2D_v2
#define CROSS_cuMemcpy2DAsync_v2(where) CROSSING(crossing_flat(&crossing, copy, where, &stream))
#define CROSS_cuMemcpy3D_v2(where) CROSSING(crossing_deep(&crossing, copy, where, NULL))
#define CROSS_cuMemcpy3DAsync_v2(where) CROSSING(crossing_deep(&crossing, copy, where, &stream))
#define CROSS_cuMemcpyBatchAsync(where) \
    CROSSING(crossing_batch(&crossing, dsts, srcs, sizes, count, fail_idx, where))
#define CROSS_cuMemcpyBatchAsync_v2(where) \
    CROSSING(crossing_batch(&crossing, dsts, srcs, sizes, count, NULL, where))
#define CROSS_cuMemsetD8_v2(where) CROSSING(crossing_reach(&crossing, dst_device, where, NULL))
#define CROSS_cuMemsetD16_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD32_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD2D8_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD2D16_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD2D32_v2 CROSS_cuMemsetD8_v2
#define CROSS_cuMemsetD8Async(where) CROSSING(crossing_reach(&crossing, dst_device, where, &stream))
#define CROSS_cuMemsetD16Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD32Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD2D8Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD2D16Async CROSS_cuMemsetD8Async
#define CROSS_cuMemsetD2D32Async CROSS_cuMemsetD8Async
#define CROSSING_NODE(context) ~, devices_several && (ctx = context, false)
#define CROSS_cuGraphAddMemcpyNode(where) CROSSING_NODE(crossing_context_of(ctx, copy_params))
#define CROSS_cuGraphExecMemcpyNodeSetParams CROSS_cuGraphAddMemcpyNode
#define CROSS_cuGraphAddMemsetNode(where) \
    CROSSING_NODE(crossing_context(ctx, memset_params ? memset_params->dst : 0, 0))
#define CROSS_cuGraphExecMemsetNodeSetParams CROSS_cuGraphAddMemsetNode
/* clang-format on */

#endif
