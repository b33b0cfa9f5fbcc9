/* The entry points about single nodes of graphs. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/address.h"
#include "simgpu/graph.h"
#include "simgpu/graph_memory.h"
#include "simgpu/launch.h"
#include "simgpu/resize.h"

static CUresult find(CUgraphNode node)
{
    SG_ENTER();
    return sg_handle_is(node, SG_GRAPH_NODE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t count)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || (count && !depends)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sg_handle_is(depends[i], SG_GRAPH_NODE) || depends[i]->graph != graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

/* ---- adding ---- */

static CUresult kernel_op(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS_v1 *p, CUkernel kernel)
{
    CUfunction function = p->func ? p->func : (CUfunction)(void *)kernel;
    return sg_launch_op(out, function, (unsigned[3]){p->gridDimX, p->gridDimY, p->gridDimZ},
                        (unsigned[3]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                        p->kernelParams, p->extra);
}

/* The newer form begins with the older one. */
static CUresult kernel_op_v2(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUDA_KERNEL_NODE_PARAMS_v1 first;
    if (!params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&first, params, sizeof first);
    return kernel_op(out, &first, params->kern);
}

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sg_op *op;
    SG_TRY(check(out, graph, depends, count));
    if (!params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(kernel_op(&op, params, NULL));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_KERNEL, op, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sg_op *op;
    SG_TRY(check(out, graph, depends, count));
    SG_TRY(kernel_op_v2(&op, params));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_KERNEL, op, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                              size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct sg_op *op;
    SG_TRY(check(out, graph, depends, count));
    if (!params || !sg_handle_is(context, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_copy_op(&op, params, context->gpu));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_MEMCPY, op, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    SG_TRY(check(out, graph, depends, count));
    if (!p || !sg_handle_is(context, SG_CONTEXT_TYPE) || !p->width || !p->height ||
        (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) ||
        !sg_is_device_range(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(SG_OP_SET);
    op->set = (struct sg_set){.dst = p->dst,
                              .width = p->width,
                              .height = p->height,
                              .pitch = p->pitch,
                              .value = p->value,
                              .element_bytes = p->elementSize};
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_MEMSET, op, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    SG_TRY(check(out, graph, depends, count));
    if (!params || !params->fn) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(SG_OP_HOST);
    op->host.call = params->fn;
    op->host.data = params->userData;
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_HOST, op, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                             size_t count)
{
    SG_TRY(check(out, graph, depends, count));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY, NULL, depends, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                  size_t count, CUgraph child)
{
    CUgraph copy;
    SG_TRY(check(out, graph, depends, count));
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
    *out = node->child;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t count,
                        CUgraphNodeParams *p)
{
    if (!p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphAddKernelNode_v2(out, graph, depends, count, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphAddMemcpyNode(out, graph, depends, count, &p->memcpy.copyParams,
                                    p->memcpy.copyCtx ? p->memcpy.copyCtx : sg_context_current());
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS set;
        memcpy(&set, &p->memset, sizeof set); /* the newer form begins with the older one */
        return cuGraphAddMemsetNode(out, graph, depends, count, &set,
                                    p->memset.ctx ? p->memset.ctx : sg_context_current());
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};
        return cuGraphAddHostNode(out, graph, depends, count, &host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphAddChildGraphNode(out, graph, depends, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return cuGraphAddEmptyNode(out, graph, depends, count);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuGraphAddMemAllocNode(out, graph, depends, count, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphAddMemFreeNode(out, graph, depends, count, p->free.dptr);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                           const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    (void)data;
    return cuGraphAddNode(out, graph, depends, count, params);
}

/* ---- changing ---- */

static CUresult replace(CUgraphNode node, CUgraphNodeType type, struct sg_op *op)
{
    if (node->type != type) {
        sg_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_op_free(node->op);
    node->op = op;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sg_op *op;
    SG_TRY(find(node));
    if (!params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(kernel_op(&op, params, NULL));
    return replace(node, CU_GRAPH_NODE_TYPE_KERNEL, op);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sg_op *op;
    SG_TRY(find(node));
    SG_TRY(kernel_op_v2(&op, params));
    return replace(node, CU_GRAPH_NODE_TYPE_KERNEL, op);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return cuGraphKernelNodeSetParams(sg_graph_exec_node(exec, node), params);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    return cuGraphKernelNodeSetParams_v2(sg_graph_exec_node(exec, node), params);
}

static CUresult enabled(CUgraphExec exec, CUgraphNode node, unsigned *get, const unsigned *set)
{
    SG_ENTER();
    CUgraphNode own = sg_graph_exec_node(exec, node);
    if (!own) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (set) {
        own->disabled = !*set;
    }
    if (get) {
        *get = !own->disabled;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int is)
{
    return enabled(exec, node, NULL, &is);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *is)
{
    return enabled(exec, node, is, NULL);
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

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        SG_TRY(find(from[i]));
        SG_TRY(find(to[i]));
        if (from[i]->graph != graph || to[i]->graph != graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        to[i]->depends =
            sg_resize(to[i]->depends, (to[i]->depend_count + 1) * sizeof *to[i]->depends);
        to[i]->depends[to[i]->depend_count++] = from[i];
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count)
{
    (void)data;
    return cuGraphAddDependencies(graph, from, to, count);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        SG_TRY(find(from[i]));
        SG_TRY(find(to[i]));
        if (to[i]->graph != graph || !sg_graph_unlink(from[i], to[i])) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *data, size_t count)
{
    (void)data;
    return cuGraphRemoveDependencies(graph, from, to, count);
}

/* ---- questions ---- */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    SG_TRY(find(node));
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    SG_TRY(find(node));
    for (size_t i = 0; nodes && i < *count; i++) {
        nodes[i] = i < node->depend_count ? node->depends[i] : NULL;
    }
    if (!nodes || *count > node->depend_count) {
        *count = node->depend_count;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                       size_t *count)
{
    if (data) {
        memset(data, 0, *count * sizeof *data);
    }
    return cuGraphNodeGetDependencies(node, nodes, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    size_t found = 0;
    SG_TRY(find(node));
    for (CUgraphNode other = node->graph->first; other; other = other->next) {
        for (size_t i = 0; i < other->depend_count; i++) {
            if (other->depends[i] == node) {
                if (nodes && found < *count) {
                    nodes[found] = other;
                }
                found++;
            }
        }
    }
    if (!nodes || *count > found) {
        *count = found;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                         CUgraphEdgeData *data, size_t *count)
{
    if (data) {
        memset(data, 0, *count * sizeof *data);
    }
    return cuGraphNodeGetDependentNodes(node, nodes, count);
}
