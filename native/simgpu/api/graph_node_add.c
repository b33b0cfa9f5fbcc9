/* The entry points that add nodes to graphs and query them. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_memory.h"
#include "simgpu/graph/graph_node_ops.h"
#include "simgpu/stream/op.h"

static CUresult find(CUgraphNode node)
{
    SG_ENTER();
    return sg_handle_is(node, SG_GRAPH_NODE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Adds a node with the work that `make` returns. */
#define ADD(kind, make)                                                  \
    do {                                                                 \
        struct sg_op *op;                                                \
        SG_TRY(sg_graph_check_dependencies(out, graph, depends, count)); \
        SG_TRY(make);                                                    \
        *out = sg_graph_add(graph, kind, op, depends, count);            \
    } while (0)

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    ADD(CU_GRAPH_NODE_TYPE_KERNEL, sg_kernel_node_op_v1(&op, params));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    ADD(CU_GRAPH_NODE_TYPE_KERNEL, sg_kernel_node_op(&op, params));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                              size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    ADD(CU_GRAPH_NODE_TYPE_MEMCPY, sg_copy_node_op(&op, params, context));
    sg_node_describe_copy(*out, params);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *params,
                              CUcontext context)
{
    ADD(CU_GRAPH_NODE_TYPE_MEMSET, sg_memset_node_op(&op, params, context));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    ADD(CU_GRAPH_NODE_TYPE_HOST, sg_host_node_op(&op, params));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                   size_t count, CUevent event)
{
    ADD(CU_GRAPH_NODE_TYPE_EVENT_RECORD, sg_event_node_op(&op, &sg_kind_event_record, event));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                 size_t count, CUevent event)
{
    ADD(CU_GRAPH_NODE_TYPE_WAIT_EVENT, sg_event_node_op(&op, &sg_kind_event_wait, event));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    ADD(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, sg_memops_node_op(&op, params));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                             size_t count)
{
    SG_TRY(sg_graph_check_dependencies(out, graph, depends, count));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY, NULL, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                  size_t count, CUgraph child)
{
    CUgraph copy;
    SG_TRY(sg_graph_check_dependencies(out, graph, depends, count));
    if (child == graph) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(cuGraphClone(&copy, child));
    copy->owned = 1;
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, NULL, depends, count);
    (*out)->child = copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
    SG_TRY(find(node));
    if (!out || !node->child) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = node->child;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    SG_TRY(find(node));
    if (sg_graph_has_memory(node->graph)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    sg_graph_remove(node);
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    SG_TRY(find(node));
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned int *id)
{
    SG_TRY(find(node));
    if (!id) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *id = node->id;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id)
{
    SG_TRY(find(node));
    if (!id) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *id = (unsigned long long)node->graph->id << 32 | node->id;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph)
{
    SG_TRY(find(node));
    if (!graph) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *graph = node->graph;
    return CUDA_SUCCESS;
}
