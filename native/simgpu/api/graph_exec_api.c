/* The entry points about executable graphs. */
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/capture/submit.h"
#include "simgpu/exec/conditional_value.h"
#include "simgpu/graph/graph_exec.h"
#include "simgpu/graph/graph_memory.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

#define AUTO_FREE 1u /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
    SG_ENTER();
    return sg_graph_exec_new(out, graph, flags);
}

static CUresult find(CUgraphExec exec)
{
    SG_ENTER();
    return sg_handle_is(exec, SG_GRAPH_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    return instantiate(out, graph, flags);
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *failed, char *log,
                            size_t bytes)
{
    if (failed) {
        *failed = NULL;
    }
    if (log && bytes) {
        *log = '\0';
    }
    return instantiate(out, graph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *failed, char *log,
                               size_t bytes)
{
    return cuGraphInstantiate(out, graph, failed, log, bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = instantiate(out, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = !result ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                         : sg_handle_is(graph, SG_GRAPH) && !sg_conditionals_are_used(graph)
                             ? CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED
                             : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    SG_TRY(find(exec));
    SG_TRY(sg_stream_of(handle, &stream));
    int captures = stream->capture != NULL;
    if (!captures) {
        SG_TRY(sg_graph_memory_map(exec->order.nodes, exec->order.count,
                                   (exec->flags & AUTO_FREE) != 0));
    }
    struct sg_op *op = sg_op_new(&sg_kind_graph);
    sg_graph_exec_ref(exec);
    op->graph.exec = exec;
    if (!captures) {
        sg_graph_exec_prepare_events(op, stream);
    }
    SG_TRY(sg_submit(stream, op));
    if (!captures) {
        sg_graph_memory_launched(exec->order.nodes, exec->order.count, stream);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    SG_TRY(find(exec));
    SG_TRY(sg_stream_of(stream, &stream));
    return sg_graph_memory_map(exec->order.nodes, exec->order.count, 1);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SG_TRY(find(exec));
    sg_handle_remove(exec, SG_GRAPH_EXEC);
    if (exec->claims) { /* a launch may still keep it */
        exec->claims = 0;
        sg_graph_memory_disclaim(exec->order.nodes, exec->order.count);
    }
    sg_graph_exec_unref(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetId(CUgraphExec exec, unsigned int *id)
{
    SG_TRY(find(exec));
    if (!id) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *id = exec->graph->id;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    SG_TRY(find(exec));
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    SG_TRY(find(exec));
    if (!info) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sg_graph_exec_update(exec, graph, info);
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *failed,
                           CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult updated = cuGraphExecUpdate_v2(exec, graph, &info);
    if (failed) {
        *failed = info.errorNode;
    }
    if (result) {
        *result = info.result;
    }
    return updated;
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
