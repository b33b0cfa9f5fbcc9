/* The entry points that get and set the parameters of nodes, in graphs and in executable graphs. */
#include <string.h>

#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/module.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/graph/graph_exec.h"
#include "simgpu/graph/graph_node_ops.h"
#include "simgpu/kernel.h"
#include "simgpu/stream/op.h"

static CUresult find(CUgraphNode node, CUgraphNodeType type, const void *params)
{
    SG_ENTER();
    return params && sg_handle_is(node, SG_GRAPH_NODE) && node->type == type
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* Replaces a node's work. The new work keeps the attributes of the old. */
static void replace(CUgraphNode node, struct sg_op *op)
{
    if (op->kind == &sg_kind_kernel && node->op) {
        op->kernel.attributes = node->op->kernel.attributes;
        node->op->kernel.attributes = NULL;
    }
    sg_op_free(node->op);
    node->op = op;
}

/* NAME sets the parameters of a node; EXEC_NAME sets them in an executable graph. */
#define SETS(name, exec_name, kind, type, make)                                \
    CUresult name(CUgraphNode node, const type *params)                        \
    {                                                                          \
        struct sg_op *op;                                                      \
        SG_TRY(find(node, kind, params));                                      \
        SG_TRY(make);                                                          \
        replace(node, op);                                                     \
        return CUDA_SUCCESS;                                                   \
    }                                                                          \
    CUresult exec_name(CUgraphExec exec, CUgraphNode node, const type *params) \
    {                                                                          \
        return name(sg_graph_exec_node(exec, node), params);                   \
    }

SETS(cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams, CU_GRAPH_NODE_TYPE_KERNEL,
     CUDA_KERNEL_NODE_PARAMS_v1, sg_kernel_node_op_v1(&op, params))
SETS(cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL,
     CUDA_KERNEL_NODE_PARAMS, sg_kernel_node_op(&op, params))
SETS(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST,
     CUDA_HOST_NODE_PARAMS, sg_host_node_op(&op, params))
SETS(cuGraphBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams,
     CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS, sg_memops_node_op(&op, params))

/* The functions below take a context in their form for executable graphs. */
static CUresult set_memset(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params,
                           CUcontext context)
{
    struct sg_op *op;
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_MEMSET, params));
    SG_TRY(sg_memset_node_op(&op, params, context));
    replace(node, op);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    SG_CONTEXT(context);
    return set_memset(node, params, context);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return set_memset(sg_graph_exec_node(exec, node), params, context);
}

static CUresult set_copy(CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context,
                         int same_direction)
{
    struct sg_op *op;
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_MEMCPY, params));
    SG_TRY(sg_copy_node_op(&op, params, context));
    if (same_direction && node->op && op->copy.direction != node->op->copy.direction) {
        sg_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    replace(node, op);
    sg_node_describe_copy(node, params);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    SG_CONTEXT(context);
    return set_copy(node, params, context, 0);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D *params, CUcontext context)
{
    return set_copy(sg_graph_exec_node(exec, node), params, context, 1);
}

/* The new child graph must have the same topology; the parameters of its nodes are taken over. */
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    SG_ENTER();
    CUgraphNode own = sg_graph_exec_node(exec, node);
    if (!own || !own->child || !sg_handle_is(child, SG_GRAPH) ||
        child->count != own->child->count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUgraphNode from = child->first;
    for (CUgraphNode to = own->child->first; to; to = to->next, from = from->next) {
        if (to->type != from->type || to->depend_count != from->depend_count) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    from = child->first;
    for (CUgraphNode to = own->child->first; to; to = to->next, from = from->next) {
        if (from->op) {
            sg_op_free(to->op);
            to->op = sg_op_copy(from->op);
        }
    }
    return CUDA_SUCCESS;
}

/* ---- events ---- */

#define EVENTS(name, kind)                                                                      \
    CUresult cuGraph##name##NodeGetEvent(CUgraphNode node, CUevent *event)                      \
    {                                                                                           \
        SG_TRY(find(node, kind, event));                                                        \
        *event = node->op->event;                                                               \
        return CUDA_SUCCESS;                                                                    \
    }                                                                                           \
    CUresult cuGraph##name##NodeSetEvent(CUgraphNode node, CUevent event)                       \
    {                                                                                           \
        SG_TRY(find(node, kind, event));                                                        \
        if (!sg_handle_is(event, SG_EVENT)) {                                                   \
            return CUDA_ERROR_INVALID_VALUE;                                                    \
        }                                                                                       \
        node->op->event = event;                                                                \
        return CUDA_SUCCESS;                                                                    \
    }                                                                                           \
    CUresult cuGraphExec##name##NodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) \
    {                                                                                           \
        return cuGraph##name##NodeSetEvent(sg_graph_exec_node(exec, node), event);              \
    }

EVENTS(EventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
EVENTS(EventWait, CU_GRAPH_NODE_TYPE_WAIT_EVENT)

/* ---- questions ---- */

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_KERNEL, params));
    const struct sg_kernel_launch *launch = &node->op->kernel;
    const struct simgpu_kernel *kernel = launch->function->kernel;
    node->params = sg_resize(node->params, (kernel->params + 1) * sizeof *node->params);
    for (uint32_t i = 0; i < kernel->params; i++) {
        node->params[i] = (char *)launch->values + launch->function->offset[i];
    }
    *params = (CUDA_KERNEL_NODE_PARAMS){
        .func = launch->function,
        .gridDimX = launch->shape.grid[0],
        .gridDimY = launch->shape.grid[1],
        .gridDimZ = launch->shape.grid[2],
        .blockDimX = launch->shape.block[0],
        .blockDimY = launch->shape.block[1],
        .blockDimZ = launch->shape.block[2],
        .sharedMemBytes = launch->shape.shared_bytes,
        .kernelParams = kernel->params ? node->params : NULL,
        .ctx = launch->function->module->context,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS newer;
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_KERNEL, params));
    SG_TRY(cuGraphKernelNodeGetParams_v2(node, &newer));
    memcpy(params, &newer, sizeof *params);
    return CUDA_SUCCESS;
}

/* The parameters of a captured copy, as a program would have given them. */
static CUDA_MEMCPY3D described(const struct sg_copy *copy)
{
    int from_host = copy->direction == SG_H2D || copy->direction == SG_H2H;
    int to_host = copy->direction == SG_D2H || copy->direction == SG_H2H;
    CUDA_MEMCPY3D made = {
        .srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcPitch = copy->src_pitch,
        .dstPitch = copy->dst_pitch,
        .srcHeight = copy->src_pitch ? copy->src_slice / copy->src_pitch : 0,
        .dstHeight = copy->dst_pitch ? copy->dst_slice / copy->dst_pitch : 0,
        .WidthInBytes = copy->width,
        .Height = copy->height,
        .Depth = copy->depth,
    };
    if (from_host) {
        made.srcHost = (const void *)(uintptr_t)copy->src;
    } else {
        made.srcDevice = copy->src;
    }
    if (to_host) {
        made.dstHost = (void *)(uintptr_t)copy->dst;
    } else {
        made.dstDevice = copy->dst;
    }
    return made;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_MEMCPY, params));
    *params = node->given ? *node->given : described(&node->op->copy);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params)
{
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_MEMSET, params));
    const struct sg_memset *set = &node->op->memset;
    *params = (CUDA_MEMSET_NODE_PARAMS){.dst = set->dst,
                                        .pitch = set->pitch,
                                        .value = set->value,
                                        .elementSize = set->element_bytes,
                                        .width = set->width,
                                        .height = set->height};
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params)
{
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_HOST, params));
    *params = (CUDA_HOST_NODE_PARAMS){node->op->host.call, node->op->host.data};
    return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    SG_CONTEXT(context);
    SG_TRY(find(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params));
    *params = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
        .ctx = context, .count = node->op->memops.count, .paramArray = node->op->memops.items};
    return CUDA_SUCCESS;
}
