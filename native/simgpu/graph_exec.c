/* Graphs made ready to be launched. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/event.h"
#include "simgpu/graph_conditional.h"
#include "simgpu/graph_memory.h"
#include "simgpu/resize.h"

#define AUTO_FREE 1u /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

struct CUgraphExec_st {
    int refs;
    pthread_mutex_t running; /* a graph runs once at a time */
    CUgraph graph;           /* a copy of its own */
    struct sg_graph_order order;
    cuuint64_t flags;
    int claims; /* the memory that its nodes allocate */
};

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || flags > 15 || !sg_conditionals_are_used(graph)) {
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
    if (sg_graph_order_make(&exec->order, exec->graph) != 0) {
        sg_graph_exec_unref(exec);
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult claimed = sg_graph_memory_claim(exec->order.nodes, exec->order.count);
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
        sg_graph_memory_disclaim(exec->order.nodes, exec->order.count);
    }
    sg_graph_free(exec->graph);
    sg_graph_order_free(&exec->order);
    free(exec);
}

void sg_graph_count(CUgraphExec exec)
{
    sg_count(SG_GRAPH_LAUNCHED, 0);
    for (size_t i = 0; i < exec->order.count; i++) {
        if (exec->order.nodes[i]->op && !exec->order.nodes[i]->disabled) {
            sg_op_count(exec->order.nodes[i]->op);
        }
    }
}

void sg_graph_execute(const struct sg_graph_launch *launch, CUstream stream, uint64_t ready_ns)
{
    CUgraphExec exec = launch->exec;
    stream->end_ns = ready_ns;
    pthread_mutex_lock(&exec->running);
    for (size_t i = 0; i < exec->order.count; i++) {
        if (exec->order.nodes[i]->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            sg_conditional_begin(exec->order.nodes[i]->op->conditional);
        }
    }
    sg_graph_order_run(&exec->order, stream, launch->records, launch->record_count);
    pthread_mutex_unlock(&exec->running);
}

CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node)
{
    return sg_handle_is(exec, SG_GRAPH_EXEC) ? sg_graph_order_find(&exec->order, node) : NULL;
}

CUgraph sg_graph_exec_copy(CUgraphExec exec) { return sg_graph_copy(exec->graph); }

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

/* What the launch waits for, and the places that the events stand for from now on. */
static void prepare_events(struct sg_op *launch, CUstream stream)
{
    const struct sg_graph_order *order = &launch->graph.exec->order;
    for (size_t i = 0; i < order->count; i++) {
        const struct sg_op *op = order->nodes[i]->op;
        struct sg_record *record = op && op->kind == SG_OP_EVENT_WAIT &&
                                           !order->nodes[i]->disabled &&
                                           sg_handle_is(op->event, SG_EVENT)
                                       ? sg_event_record_of(op->event)
                                       : NULL;
        if (record && !record->capture && record->stream != stream &&
            !sg_stream_done(record->stream, record->number)) {
            sg_op_wait_for(launch, record->stream, record->number);
        }
        sg_record_unref(record);
    }
    for (size_t i = 0; i < order->count; i++) {
        const struct sg_op *op = order->nodes[i]->op;
        if (op && op->kind == SG_OP_EVENT_RECORD) {
            struct sg_graph_launch *graph = &launch->graph;
            graph->records =
                sg_resize(graph->records, (graph->record_count + 1) * sizeof *graph->records);
            graph->records[graph->record_count++] =
                !order->nodes[i]->disabled && sg_handle_is(op->event, SG_EVENT)
                    ? sg_event_new_record(op->event, stream)
                    : NULL;
        }
    }
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    SG_TRY(find(exec));
    SG_TRY(sg_stream_of(handle, &stream));
    int captures = stream->capture != NULL;
    if (!captures) {
        SG_TRY(sg_graph_memory_back(exec->order.nodes, exec->order.count,
                                    (exec->flags & AUTO_FREE) != 0));
    }
    struct sg_op *op = sg_op_new(SG_OP_GRAPH);
    sg_graph_exec_ref(exec);
    op->graph.exec = exec;
    if (!captures) {
        prepare_events(op, stream);
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
    return sg_graph_memory_back(exec->order.nodes, exec->order.count, 1);
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

/* Whether what is launchable may be made to do what the other does; if not, which node is why. */
static CUgraphExecUpdateResult compare(const struct sg_graph_order *now,
                                       const struct sg_graph_order *next,
                                       CUgraphExecUpdateResultInfo *info)
{
    if (now->count != next->count) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    for (size_t i = 0; i < now->count; i++) {
        CUgraphNode old = now->nodes[i];
        CUgraphNode fresh = next->nodes[i];
        info->errorNode = fresh->origin;
        if (old->type != fresh->type) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        }
        if (old->depend_count != fresh->depend_count) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
        if (old->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
            old->op->copy.direction != fresh->op->copy.direction) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        }
    }
    info->errorNode = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The nodes that the program knows are those of the graph that was made launchable first. */
static void take_over(const struct sg_graph_order *now, const struct sg_graph_order *next)
{
    for (size_t i = 0; i < now->count; i++) {
        next->nodes[i]->origin = now->nodes[i]->origin;
        next->nodes[i]->disabled = now->nodes[i]->disabled;
    }
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
    info->result = compare(&exec->order, &fresh->order, info);
    if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        take_over(&exec->order, &fresh->order);
        pthread_mutex_lock(&exec->running);
        CUgraph old_graph = exec->graph;
        struct sg_graph_order old_order = exec->order;
        exec->graph = fresh->graph;
        exec->order = fresh->order;
        fresh->graph = old_graph;
        fresh->order = old_order;
        pthread_mutex_unlock(&exec->running);
    }
    sg_graph_exec_unref(fresh);
    return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                        : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
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

/* ---- single nodes of them ---- */

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
