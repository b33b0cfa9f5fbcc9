/* Graphs: looked at, made ready, ended. Kernel nodes come from captures; for other nodes the parameters are
 * the driver's. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(cudaGraphCreate, CUgraph *graph, unsigned int flags)
{
    RT_PASS(rt_driver.cuGraphCreate(graph, flags));
}

RT_CALL(cudaGraphClone, CUgraph *clone, CUgraph graph)
{
    RT_PASS(rt_driver.cuGraphClone(clone, graph));
}

RT_CALL(cudaGraphDestroy, CUgraph graph) { RT_PASS(rt_driver.cuGraphDestroy(graph)); }

RT_CALL(cudaGraphGetNodes, CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    RT_PASS(rt_driver.cuGraphGetNodes(graph, nodes, count));
}

RT_CALL(cudaGraphGetRootNodes, CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    RT_PASS(rt_driver.cuGraphGetRootNodes(graph, nodes, count));
}

RT_CALL(cudaGraphNodeGetType, CUgraphNode node, CUgraphNodeType *type)
{
    RT_PASS(rt_driver.cuGraphNodeGetType(node, type));
}

static cudaError_t dependencies(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                                size_t *count)
{
    RT_PASS(rt_driver.cuGraphNodeGetDependencies(node, nodes, edges, count));
}

static cudaError_t add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *nodes,
                            const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    if (params && params->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        return rt_end(cudaErrorNotSupported);
    }
    RT_PASS(rt_driver.cuGraphAddNode(out, graph, nodes, edges, count, params));
}

#if CUDART_VERSION < 13000
RT_CALL(cudaGraphNodeGetDependencies, CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return dependencies(node, nodes, NULL, count);
}

RT_CALL(cudaGraphNodeGetDependencies_v2, CUgraphNode node, CUgraphNode *nodes,
        CUgraphEdgeData *edges, size_t *count)
{
    return dependencies(node, nodes, edges, count);
}

RT_CALL(cudaGraphAddNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *nodes, size_t count,
        CUgraphNodeParams *params)
{
    return add_node(out, graph, nodes, NULL, count, params);
}

RT_CALL(cudaGraphAddNode_v2, CUgraphNode *out, CUgraph graph, const CUgraphNode *nodes,
        const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    return add_node(out, graph, nodes, edges, count, params);
}
#else
RT_CALL(cudaGraphNodeGetDependencies, CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
        size_t *count)
{
    return dependencies(node, nodes, edges, count);
}

RT_CALL(cudaGraphAddNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *nodes,
        const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    return add_node(out, graph, nodes, edges, count, params);
}
#endif

RT_CALL(cudaGraphConditionalHandleCreate, CUgraphConditionalHandle *handle, CUgraph graph,
        unsigned int initial, unsigned int flags)
{
    /* Only a kernel can set one, and the kernels here compute nothing. */
    (void)handle, (void)graph, (void)initial, (void)flags;
    return rt_end(cudaErrorNotSupported);
}

RT_CALL(cudaGraphInstantiateWithFlags, CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    RT_PASS(rt_driver.cuGraphInstantiateWithFlags(exec, graph, flags));
}

RT_CALL(cudaGraphInstantiate, CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

RT_CALL(cudaGraphExecUpdate, CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    RT_PASS(rt_driver.cuGraphExecUpdate(exec, graph, info));
}

RT_CALL(cudaGraphExecDestroy, CUgraphExec exec) { RT_PASS(rt_driver.cuGraphExecDestroy(exec)); }

RT_CALL(cudaGraphDebugDotPrint, CUgraph graph, const char *path, unsigned int flags)
{
    RT_PASS(rt_driver.cuGraphDebugDotPrint(graph, path, flags));
}

RT_CALL(cudaUserObjectCreate, CUuserObject *object, void *pointer, CUhostFn destroy,
        unsigned int references, unsigned int flags)
{
    RT_PASS(rt_driver.cuUserObjectCreate(object, pointer, destroy, references, flags));
}

RT_CALL(cudaUserObjectRelease, CUuserObject object, unsigned int count)
{
    RT_PASS(rt_driver.cuUserObjectRelease(object, count));
}

RT_CALL(cudaGraphRetainUserObject, CUgraph graph, CUuserObject object, unsigned int count,
        unsigned int flags)
{
    typedef CUresult retain(CUgraph, CUuserObject, unsigned int, unsigned int);
    CUdriverProcAddressQueryResult status;
    void *function = NULL;
    RT_TRY(rt_context());
    RT_TRY(rt_lookup("cuGraphRetainUserObject", &function, 11030, 0, &status));
    return rt_end((cudaError_t)((retain *)function)(graph, object, count, flags));
}
