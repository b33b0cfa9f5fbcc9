#include "simgpu/graph/graph_exec.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/counters.h"
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/exec/conditional_value.h"
#include "simgpu/graph/graph_conditional.h"
#include "simgpu/graph/graph_memory.h"

CUresult sg_graph_exec_new(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
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

CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node)
{
    return sg_handle_is(exec, SG_GRAPH_EXEC) ? sg_graph_order_find(&exec->order, node) : NULL;
}

CUgraph sg_graph_exec_copy(CUgraphExec exec) { return sg_graph_copy(exec->graph); }

/* ---- as work ---- */

static void execute(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    const struct sg_graph_launch *launch = &op->graph;
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

static void copy(struct sg_op *op)
{
    sg_graph_exec_ref(op->graph.exec);
    op->graph.records = NULL;
    op->graph.record_count = 0;
}

static void release(struct sg_op *op)
{
    for (size_t i = 0; i < op->graph.record_count; i++) {
        sg_record_unref(op->graph.records[i]); /* NULL: of a node that was disabled */
    }
    free(op->graph.records);
    sg_graph_exec_unref(op->graph.exec);
}

static void count(const struct sg_op *op)
{
    CUgraphExec exec = op->graph.exec;
    sg_count(SG_GRAPH_LAUNCHED, 0);
    for (size_t i = 0; i < exec->order.count; i++) {
        if (exec->order.nodes[i]->op && !exec->order.nodes[i]->disabled) {
            sg_op_count(exec->order.nodes[i]->op);
        }
    }
}

static void submitted(struct sg_op *op)
{
    for (size_t i = 0; i < op->graph.record_count; i++) {
        if (op->graph.records[i]) {
            op->graph.records[i]->number = op->number;
        }
    }
}

const struct sg_op_kind sg_kind_graph = {.name = "graph launch",
                                         .is_capturable = 1,
                                         .node_type = CU_GRAPH_NODE_TYPE_GRAPH,
                                         .execute = execute,
                                         .copy = copy,
                                         .release = release,
                                         .count = count,
                                         .submitted = submitted};

void sg_graph_exec_prepare_events(struct sg_op *launch, CUstream stream)
{
    const struct sg_graph_order *order = &launch->graph.exec->order;
    for (size_t i = 0; i < order->count; i++) {
        const struct sg_op *op = order->nodes[i]->op;
        struct sg_record *record = op && op->kind == &sg_kind_event_wait &&
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
        if (op && op->kind == &sg_kind_event_record) {
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

/* ---- updating ---- */

/* Compares two orders for an update. `info` gets the node that differs. */
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

/* Keeps the origin of each node: the program names the nodes of the first graph. */
static void take_over(const struct sg_graph_order *now, const struct sg_graph_order *next)
{
    for (size_t i = 0; i < now->count; i++) {
        next->nodes[i]->origin = now->nodes[i]->origin;
        next->nodes[i]->disabled = now->nodes[i]->disabled;
    }
}

CUresult sg_graph_exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec fresh;
    memset(info, 0, sizeof *info);
    SG_TRY(sg_graph_exec_new(&fresh, graph, exec->flags));
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
