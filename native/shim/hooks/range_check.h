/* Where allocations end, for the calls that the driver holds to that.
 *
 * The driver refuses to copy beyond an allocation, or to what was freed. Ours are whole pages of its
 * mappings, and small ones share a page, so it would find nothing wrong with either. WRONG_<name> says
 * of a call's arguments whether they are; a call without one is the driver's to judge. Kernels are held
 * to pages, with us as without.
 */
#ifndef MOIETY_SHIM_HOOKS_RANGE_CHECK_H
#define MOIETY_SHIM_HOOKS_RANGE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/extent.h"

/* What this thread found last, as long as no extent has come or gone since. */
struct range_check_last {
    uint64_t version; /* of the table of extents */
    CUdeviceptr base; /* of an allocation that has its pages for itself */
    uint64_t size;
    CUdeviceptr foreign; /* an address that is not ours */
};

extern __thread struct range_check_last range_check_last __attribute__((tls_model("initial-exec")));

/* What such a call is answered. */
CUresult range_check_error(void);
/* The slow half of range_check_fails: takes the lock. */
bool range_check_fails_now(CUdeviceptr address, uint64_t bytes);

/* Whether the bytes begin in a page of ours, but are not all in one allocation. */
static inline bool range_check_fails(CUdeviceptr address, uint64_t bytes)
{
    const struct range_check_last *last = &range_check_last;
    uint64_t version = atomic_load_explicit(&extents_version, memory_order_acquire);
    CUdeviceptr offset = address - last->base;
    if (__builtin_expect(last->version == version, 1) &&
        (address == last->foreign || (offset < last->size && bytes <= last->size - offset))) {
        return false;
    }
    return range_check_fails_now(address, bytes);
}

/* The same of rows; a row that is longer than the pitch is the driver's to judge. */
bool range_check_fails_rows(CUdeviceptr address, uint64_t pitch, uint64_t width, uint64_t height);
/* Of either side of a copy. */
bool range_check_fails_2d(const CUDA_MEMCPY2D *copy);
bool range_check_fails_3d(const CUDA_MEMCPY3D *copy);
bool range_check_fails_peers(const CUDA_MEMCPY3D_PEER *copy);
/* Of any copy of a batch; *failed (may be NULL) is the first such. */
bool range_check_fails_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                             size_t count, size_t *failed);
/* Of what a graph's node sets or copies. */
bool range_check_fails_set(const CUDA_MEMSET_NODE_PARAMS *set);
bool range_check_fails_node(const CUgraphNodeParams *node);

/* clang-format off: this is a table */
#define WRONG_cuMemcpy ~, range_check_fails(dst, bytes) || range_check_fails(src, bytes)
#define WRONG_cuMemcpyAsync WRONG_cuMemcpy
#define WRONG_cuMemcpyHtoD_v2 ~, range_check_fails(dst_device, bytes)
#define WRONG_cuMemcpyHtoDAsync_v2 WRONG_cuMemcpyHtoD_v2
#define WRONG_cuMemcpyDtoH_v2 ~, range_check_fails(src_device, bytes)
#define WRONG_cuMemcpyDtoHAsync_v2 WRONG_cuMemcpyDtoH_v2
#define WRONG_cuMemcpyDtoD_v2 \
    ~, range_check_fails(dst_device, bytes) || range_check_fails(src_device, bytes)
#define WRONG_cuMemcpyDtoDAsync_v2 WRONG_cuMemcpyDtoD_v2
#define WRONG_cuMemcpyPeer WRONG_cuMemcpyDtoD_v2
#define WRONG_cuMemcpyPeerAsync WRONG_cuMemcpyDtoD_v2
#define WRONG_cuMemcpy2D_v2 ~, range_check_fails_2d(copy)
#define WRONG_cuMemcpy2DUnaligned_v2 WRONG_cuMemcpy2D_v2
#define WRONG_cuMemcpy2DAsync_v2 WRONG_cuMemcpy2D_v2
#define WRONG_cuMemcpy3D_v2 ~, range_check_fails_3d(copy)
#define WRONG_cuMemcpy3DAsync_v2 WRONG_cuMemcpy3D_v2
#define WRONG_cuMemcpy3DPeer ~, range_check_fails_peers(copy)
#define WRONG_cuMemcpy3DPeerAsync WRONG_cuMemcpy3DPeer
#define WRONG_cuMemcpyBatchAsync ~, range_check_fails_batch(dsts, srcs, sizes, count, fail_idx)
#define WRONG_cuMemcpyBatchAsync_v2 ~, range_check_fails_batch(dsts, srcs, sizes, count, NULL)
#define WRONG_cuMemcpyWithAttributesAsync WRONG_cuMemcpy
#define WRONG_cuGraphAddMemcpyNode ~, range_check_fails_3d(copy_params)
#define WRONG_cuGraphExecMemcpyNodeSetParams WRONG_cuGraphAddMemcpyNode
#define WRONG_cuGraphMemcpyNodeSetParams ~, range_check_fails_3d(node_params)
#define WRONG_cuGraphAddMemsetNode ~, range_check_fails_set(memset_params)
#define WRONG_cuGraphExecMemsetNodeSetParams WRONG_cuGraphAddMemsetNode
#define WRONG_cuGraphMemsetNodeSetParams ~, range_check_fails_set(node_params)
#define WRONG_cuGraphNodeSetParams ~, range_check_fails_node(node_params)
#define WRONG_cuGraphNodeSetParams_v2 WRONG_cuGraphNodeSetParams
#define WRONG_cuGraphExecNodeSetParams WRONG_cuGraphNodeSetParams
#define WRONG_cuMemsetD8_v2 ~, range_check_fails(dst_device, count)
#define WRONG_cuMemsetD8Async WRONG_cuMemsetD8_v2
#define WRONG_cuMemsetD16_v2 ~, range_check_fails_rows(dst_device, 2, 2, count)
#define WRONG_cuMemsetD16Async WRONG_cuMemsetD16_v2
#define WRONG_cuMemsetD32_v2 ~, range_check_fails_rows(dst_device, 4, 4, count)
#define WRONG_cuMemsetD32Async WRONG_cuMemsetD32_v2
#define WRONG_cuMemsetD2D8_v2 ~, range_check_fails_rows(dst_device, dst_pitch, width, height)
#define WRONG_cuMemsetD2D8Async WRONG_cuMemsetD2D8_v2
#define WRONG_cuMemsetD2D16_v2 ~, range_check_fails_rows(dst_device, dst_pitch, 2 * width, height)
#define WRONG_cuMemsetD2D16Async WRONG_cuMemsetD2D16_v2
#define WRONG_cuMemsetD2D32_v2 ~, range_check_fails_rows(dst_device, dst_pitch, 4 * width, height)
#define WRONG_cuMemsetD2D32Async WRONG_cuMemsetD2D32_v2
/* clang-format on */

#endif
