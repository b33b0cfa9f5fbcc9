/* The entry points that take nodes of every type. */
#include <string.h>

#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_conditional.h"
#include "simgpu/graph/graph_exec.h"

static CUcontext context_or_current(CUcontext context)
{
    return context ? context : sg_context_current();
}

/* The newer structures begin with the older ones. */
static CUDA_MEMSET_NODE_PARAMS plain_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *newer)
{
    CUDA_MEMSET_NODE_PARAMS older;
    memcpy(&older, newer, sizeof older);
    return older;
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS in_context(CUDA_BATCH_MEM_OP_NODE_PARAMS params)
{
    params.ctx = context_or_current(params.ctx);
    return params;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t count,
                    CUgraphNodeParams *p)
{
    switch ((int)p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphAddKernelNode_v2(out, graph, depends, count, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphAddMemcpyNode(out, graph, depends, count, &p->memcpy.copyParams,
                                    context_or_current(p->memcpy.copyCtx));
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS set = plain_memset(&p->memset);
        return cuGraphAddMemsetNode(out, graph, depends, count, &set,
                                    context_or_current(p->memset.ctx));
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};
        return cuGraphAddHostNode(out, graph, depends, count, &host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphAddChildGraphNode(out, graph, depends, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return cuGraphAddEmptyNode(out, graph, depends, count);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphAddEventWaitNode(out, graph, depends, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphAddEventRecordNode(out, graph, depends, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuGraphAddMemAllocNode(out, graph, depends, count, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphAddMemFreeNode(out, graph, depends, count, p->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = in_context(p->memOp);
        return cuGraphAddBatchMemOpNode(out, graph, depends, count, &values);
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return sg_conditional_add(out, graph, depends, count, &p->conditional);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                           const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    if (!params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(add(out, graph, NULL, 0, params));
    for (size_t i = 0; i < count; i++) {
        CUresult result =
            depends ? cuGraphAddDependencies_v2(graph, &depends[i], out, data ? &data[i] : NULL, 1)
                    : CUDA_ERROR_INVALID_VALUE;
        if (result) {
            sg_graph_remove(*out);
            return result;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t count,
                        CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(out, graph, depends, NULL, count, params);
}

CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                           const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(out, graph, depends, data, count, params);
}

/* ---- changing ---- */

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
    SG_ENTER();
    if (!p || !sg_handle_is(node, SG_GRAPH_NODE) || node->type != p->type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch ((int)p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams_v2(node, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS set = plain_memset(&p->memset);
        return cuGraphMemsetNodeSetParams(node, &set);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};
        return cuGraphHostNodeSetParams(node, &host);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphEventWaitNodeSetEvent(node, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = in_context(p->memOp);
        return cuGraphBatchMemOpNodeSetParams(node, &values);
    }
    default: /* what they have is what they are */
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params)
{
    return cuGraphNodeSetParams(node, params);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    SG_ENTER();
    CUgraphNode own = sg_graph_exec_node(exec, node);
    if (!own || !p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
    }
    if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        return cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams,
                                              context_or_current(p->memcpy.copyCtx));
    }
    return cuGraphNodeSetParams(own, p);
}

/* ---- questions ---- */

CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *p)
{
    SG_CONTEXT(context);
    if (!p || !sg_handle_is(node, SG_GRAPH_NODE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(p, 0, sizeof *p);
    p->type = node->type;
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeGetParams_v2(node, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        p->memcpy.copyCtx = context;
        return cuGraphMemcpyNodeGetParams(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS set;
        SG_TRY(cuGraphMemsetNodeGetParams(node, &set));
        memcpy(&p->memset, &set, sizeof set);
        p->memset.ctx = context;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
        p->host.fn = node->op->host.call;
        p->host.userData = node->op->host.data;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        p->graph.graph = node->child;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        p->eventWait.event = node->op->event;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        p->eventRecord.event = node->op->event;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuGraphMemAllocNodeGetParams(node, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphMemFreeNodeGetParams(node, &p->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphBatchMemOpNodeGetParams(node, &p->memOp);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        sg_conditional_describe(node->op->conditional, &p->conditional);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}
