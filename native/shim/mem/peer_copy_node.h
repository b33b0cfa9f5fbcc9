/* The contexts of nodes of graphs that copy or set memory of another GPU (peer_copy.h). */
#ifndef MOIETY_SHIM_MEM_PEER_COPY_NODE_H
#define MOIETY_SHIM_MEM_PEER_COPY_NODE_H

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* A context that a graph's node can work in, given the one that the program named for it; for a copy between
 * GPUs, the memory is opened to that one. */
CUcontext peer_copy_node_context(CUcontext named, CUdeviceptr dst, CUdeviceptr src);
CUcontext peer_copy_node_context_3d(CUcontext named, const CUDA_MEMCPY3D *copy);
/* The same for a node of any kind, in its parameters; what was there before. */
CUcontext peer_copy_node(CUgraphNodeParams *node);
void peer_copy_node_end(CUgraphNodeParams *node, CUcontext before);

/* clang-format off: this is a table */
#define PEER_COPY_NODE(context) ~, devices_several && (ctx = context, false)
#define CROSS_cuGraphAddMemcpyNode(where) \
    PEER_COPY_NODE(peer_copy_node_context_3d(ctx, copy_params))
#define CROSS_cuGraphExecMemcpyNodeSetParams CROSS_cuGraphAddMemcpyNode
#define CROSS_cuGraphAddMemsetNode(where) \
    PEER_COPY_NODE(peer_copy_node_context(ctx, memset_params ? memset_params->dst : 0, 0))
#define CROSS_cuGraphExecMemsetNodeSetParams CROSS_cuGraphAddMemsetNode
/* clang-format on */

#endif
