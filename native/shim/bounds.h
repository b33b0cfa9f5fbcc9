/* Where allocations end, for the calls that the driver holds to that.
 *
 * The driver refuses to copy beyond an allocation, or to what was freed. Ours are whole pages of its
 * mappings, and small ones share a page, so it would find nothing wrong with either. WRONG_<name> says
 * of a call's arguments whether they are; a call without one is the driver's to judge. Kernels are held
 * to pages, with us as without.
 */
#ifndef MOIETY_SHIM_BOUNDS_H
#define MOIETY_SHIM_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

/* What such a call is answered. */
CUresult bounds_refusal(void);
/* Whether the bytes begin in a page of ours, but are not all in one allocation. */
bool bounds_lack(CUdeviceptr address, uint64_t bytes);
/* The same of rows; a row that is longer than the pitch is the driver's to judge. */
bool bounds_lack_rows(CUdeviceptr address, uint64_t pitch, uint64_t width, uint64_t height);
/* Of either side of a copy. */
bool bounds_lack_flat(const CUDA_MEMCPY2D *copy);
bool bounds_lack_deep(const CUDA_MEMCPY3D *copy);
bool bounds_lack_peers(const CUDA_MEMCPY3D_PEER *copy);
/* Of any copy of a batch; *failed (may be NULL) is the first such. */
bool bounds_lack_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                       size_t count, size_t *failed);
/* Of what a graph's node sets or copies. */
bool bounds_lack_set(const CUDA_MEMSET_NODE_PARAMS *set);
bool bounds_lack_node(const CUgraphNodeParams *node);

/* clang-format off: this is a table */
#define WRONG_cuMemcpy ~, bounds_lack(dst, bytes) || bounds_lack(src, bytes)
#define WRONG_cuMemcpyAsync WRONG_cuMemcpy
#define WRONG_cuMemcpyHtoD_v2 ~, bounds_lack(dst_device, bytes)
#define WRONG_cuMemcpyHtoDAsync_v2 WRONG_cuMemcpyHtoD_v2
#define WRONG_cuMemcpyDtoH_v2 ~, bounds_lack(src_device, bytes)
#define WRONG_cuMemcpyDtoHAsync_v2 WRONG_cuMemcpyDtoH_v2
#define WRONG_cuMemcpyDtoD_v2 ~, bounds_lack(dst_device, bytes) || bounds_lack(src_device, bytes)
#define WRONG_cuMemcpyDtoDAsync_v2 WRONG_cuMemcpyDtoD_v2
#define WRONG_cuMemcpyPeer WRONG_cuMemcpyDtoD_v2
#define WRONG_cuMemcpyPeerAsync WRONG_cuMemcpyDtoD_v2
#define WRONG_cuMemcpy2D_v2 ~, bounds_lack_flat(copy)
#define WRONG_cuMemcpy2DUnaligned_v2 WRONG_cuMemcpy2D_v2
#define WRONG_cuMemcpy2DAsync_v2 WRONG_cuMemcpy2D_v2
#define WRONG_cuMemcpy3D_v2 ~, bounds_lack_deep(copy)
#define WRONG_cuMemcpy3DAsync_v2 WRONG_cuMemcpy3D_v2
#define WRONG_cuMemcpy3DPeer ~, bounds_lack_peers(copy)
#define WRONG_cuMemcpy3DPeerAsync WRONG_cuMemcpy3DPeer
#define WRONG_cuMemcpyBatchAsync ~, bounds_lack_batch(dsts, srcs, sizes, count, fail_idx)
#define WRONG_cuMemcpyBatchAsync_v2 ~, bounds_lack_batch(dsts, srcs, sizes, count, NULL)
#define WRONG_cuMemcpyWithAttributesAsync WRONG_cuMemcpy
#define WRONG_cuGraphAddMemcpyNode ~, bounds_lack_deep(copy_params)
#define WRONG_cuGraphExecMemcpyNodeSetParams WRONG_cuGraphAddMemcpyNode
#define WRONG_cuGraphMemcpyNodeSetParams ~, bounds_lack_deep(node_params)
#define WRONG_cuGraphAddMemsetNode ~, bounds_lack_set(memset_params)
#define WRONG_cuGraphExecMemsetNodeSetParams WRONG_cuGraphAddMemsetNode
#define WRONG_cuGraphMemsetNodeSetParams ~, bounds_lack_set(node_params)
#define WRONG_cuGraphNodeSetParams ~, bounds_lack_node(node_params)
#define WRONG_cuGraphNodeSetParams_v2 WRONG_cuGraphNodeSetParams
#define WRONG_cuGraphExecNodeSetParams WRONG_cuGraphNodeSetParams
#define WRONG_cuMemsetD8_v2 ~, bounds_lack(dst_device, count)
#define WRONG_cuMemsetD8Async WRONG_cuMemsetD8_v2
#define WRONG_cuMemsetD16_v2 ~, bounds_lack_rows(dst_device, 2, 2, count)
#define WRONG_cuMemsetD16Async WRONG_cuMemsetD16_v2
#define WRONG_cuMemsetD32_v2 ~, bounds_lack_rows(dst_device, 4, 4, count)
#define WRONG_cuMemsetD32Async WRONG_cuMemsetD32_v2
#define WRONG_cuMemsetD2D8_v2 ~, bounds_lack_rows(dst_device, dst_pitch, width, height)
#define WRONG_cuMemsetD2D8Async WRONG_cuMemsetD2D8_v2
#define WRONG_cuMemsetD2D16_v2 ~, bounds_lack_rows(dst_device, dst_pitch, 2 * width, height)
#define WRONG_cuMemsetD2D16Async WRONG_cuMemsetD2D16_v2
#define WRONG_cuMemsetD2D32_v2 ~, bounds_lack_rows(dst_device, dst_pitch, 4 * width, height)
#define WRONG_cuMemsetD2D32Async WRONG_cuMemsetD2D32_v2
/* clang-format on */

#endif
