/* Graphs made ready to be launched. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/graph.h"
#include "simgpu/graph_memory.h"
#include "simgpu/resize.h"

#define AUTO_FREE 1u /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

struct CUgraphExec_st {
    int refs;
    pthread_mutex_t running; /* a graph runs once at a time */
    CUgraph graph;           /* a copy of its own */
    CUgraphNode *order;
    size_t count;
    cuuint64_t flags;
    int claims; /* the memory that its nodes allocate */
};

/* What a node depends on comes before it; a child graph stands in its parent's place. -1: a circle. */
static int put_in_order(CUgraphNode node, CUgraphNode **order, size_t *count)
{
    if (node->mark == 2) {
        return 0;
    }
    if (node->mark == 1) {
        return -1;
    }
    node->mark = 1;
    for (size_t i = 0; i < node->depend_count; i++) {
        if (put_in_order(node->depends[i], order, count) != 0) {
            return -1;
        }
    }
    for (CUgraphNode inner = node->child ? node->child->first : NULL; inner; inner = inner->next) {
        if (put_in_order(inner, order, count) != 0) {
            return -1;
        }
    }
    node->mark = 2;
    *order = sg_resize(*order, (*count + 1) * sizeof **order);
    (*order)[(*count)++] = node;
    return 0;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || flags > 15) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUgraphExec exec = calloc(1, sizeof *exec);
    if (!exec) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->refs = 1;
    exec->flags = flags;
    exec->graph = sg_graph_copy(graph);
    pthread_mutex_init(&exec->running, NULL);
    for (CUgraphNode node = exec->graph->first; node; node = node->next) {
        if (put_in_order(node, &exec->order, &exec->count) != 0) {
            sg_graph_exec_unref(exec);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    CUresult claimed = sg_graph_memory_claim(exec->order, exec->count);
    if (claimed) {
        sg_graph_exec_unref(exec);
        return claimed;
    }
    exec->claims = 1;
    sg_handle_add(exec, SG_GRAPH_EXEC);
    *out = exec;
    return CUDA_SUCCESS;
}

void sg_graph_exec_ref(CUgraphExec exec) { __atomic_add_fetch(&exec->refs, 1, __ATOMIC_ACQ_REL); }

void sg_graph_exec_unref(CUgraphExec exec)
{
    if (__atomic_sub_fetch(&exec->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    if (exec->claims) {
        sg_graph_memory_disclaim(exec->order, exec->count);
    }
    sg_graph_free(exec->graph);
    free(exec->order);
    free(exec);
}

void sg_graph_count(CUgraphExec exec)
{
    sg_count(SG_GRAPH_LAUNCHED, 0);
    for (size_t i = 0; i < exec->count; i++) {
        if (exec->order[i]->op && !exec->order[i]->disabled) {
            sg_op_count(exec->order[i]->op);
        }
    }
}

void sg_graph_execute(CUgraphExec exec, CUstream stream, uint64_t ready_ns)
{
    stream->end_ns = ready_ns;
    pthread_mutex_lock(&exec->running);
    for (size_t i = 0; i < exec->count && !stream->context->broken; i++) {
        struct sg_op *op = exec->order[i]->op;
        if (!op || exec->order[i]->disabled) {
            continue;
        }
        sg_op_execute(op, stream, stream->end_ns);
        if (op->kind == SG_OP_RECORD) {
            op->record->number = 0; /* done: its stream is the launch's, which is here */
        }
    }
    pthread_mutex_unlock(&exec->running);
}

CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node)
{
    return sg_handle_is(exec, SG_GRAPH_EXEC) ? sg_graph_copy_of(exec->graph, node) : NULL;
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
    params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    SG_TRY(find(exec));
    SG_TRY(sg_stream_of(handle, &stream));
    int captures = stream->capture != NULL;
    if (!captures) {
        SG_TRY(sg_graph_memory_back(exec->order, exec->count, (exec->flags & AUTO_FREE) != 0));
    }
    struct sg_op *op = sg_op_new(SG_OP_GRAPH);
    sg_graph_exec_ref(exec);
    op->graph = exec;
    SG_TRY(sg_submit(stream, op));
    if (!captures) {
        sg_graph_memory_launched(exec->order, exec->count, stream);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    SG_TRY(find(exec));
    SG_TRY(sg_stream_of(stream, &stream));
    return sg_graph_memory_back(exec->order, exec->count, 1);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SG_TRY(find(exec));
    sg_handle_remove(exec, SG_GRAPH_EXEC);
    if (exec->claims) { /* a launch may still keep it */
        exec->claims = 0;
        sg_graph_memory_disclaim(exec->order, exec->count);
    }
    sg_graph_exec_unref(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    SG_TRY(find(exec));
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

/* The new graph must have the same form; its parameters are taken over. */
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec fresh;
    SG_TRY(find(exec));
    if (!info) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(info, 0, sizeof *info);
    SG_TRY(instantiate(&fresh, graph, exec->flags));
    sg_handle_remove(fresh, SG_GRAPH_EXEC);
    int same = fresh->count == exec->count;
    for (size_t i = 0; same && i < exec->count; i++) {
        same = fresh->order[i]->type == exec->order[i]->type &&
               fresh->order[i]->depend_count == exec->order[i]->depend_count;
    }
    if (same) {
        pthread_mutex_lock(&exec->running);
        CUgraph old_graph = exec->graph;
        CUgraphNode *old_order = exec->order;
        exec->graph = fresh->graph;
        exec->order = fresh->order;
        fresh->graph = old_graph;
        fresh->order = old_order;
        pthread_mutex_unlock(&exec->running);
    }
    sg_graph_exec_unref(fresh);
    info->result =
        same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
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
