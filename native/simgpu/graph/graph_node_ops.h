/* Makes the work of graph nodes from the parameters of API calls. */
#ifndef SIMGPU_GRAPH_NODE_OPS_H
#define SIMGPU_GRAPH_NODE_OPS_H

#include "simgpu/graph/graph.h"

/* Each function checks its parameters, which may be NULL. */
CUresult sg_kernel_node_op_v1(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUresult sg_kernel_node_op(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult sg_copy_node_op(struct sg_op **out, const CUDA_MEMCPY3D *params, CUcontext context);
CUresult sg_memset_node_op(struct sg_op **out, const CUDA_MEMSET_NODE_PARAMS *params,
                           CUcontext context);
CUresult sg_host_node_op(struct sg_op **out, const CUDA_HOST_NODE_PARAMS *params);
CUresult sg_event_node_op(struct sg_op **out, const struct sg_op_kind *kind, CUevent event);
CUresult sg_memops_node_op(struct sg_op **out, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);

/* Keeps the program's description of a copy for cuGraphMemcpyNodeGetParams. */
void sg_node_describe_copy(CUgraphNode node, const CUDA_MEMCPY3D *given);

#endif
