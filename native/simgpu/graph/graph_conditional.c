#include "simgpu/graph/graph_conditional.h"

#include <stdlib.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/resize.h"
#include "simgpu/exec/conditional_value.h"
#include "simgpu/shared/state_layout.h"

#define ELSE_AND_SWITCH 12080 /* the CUDA version that added them; 12.3 had only `if` and `while` */

static int is_size_right(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    int is_newer = sg_state->machine.driver_version >= ELSE_AND_SWITCH;
    switch (params->type) {
    case CU_GRAPH_COND_TYPE_IF:
        return params->size == 1 || (is_newer && params->size == 2);
    case CU_GRAPH_COND_TYPE_WHILE:
        return params->size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
        return is_newer && params->size > 0;
    }
    return 0;
}

CUresult sg_conditional_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    SG_TRY(sg_graph_check_dependencies(out, graph, depends, count));
    if (!is_size_right(params) || !sg_conditional_value_use(params->handle)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_conditional *condition = sg_resize(NULL, sizeof *condition);
    *condition = (struct sg_conditional){.handle = params->handle,
                                         .type = params->type,
                                         .size = params->size,
                                         .context = params->ctx};
    condition->bodies = sg_resize(NULL, params->size * sizeof(CUgraph));
    for (unsigned i = 0; i < params->size; i++) {
        condition->bodies[i] = sg_graph_new();
        condition->bodies[i]->owned = 1;
    }
    struct sg_op *op = sg_op_new(&sg_kind_conditional);
    op->conditional = condition;
    params->phGraph_out = condition->bodies;
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, op, depends, count);
    return CUDA_SUCCESS;
}

void sg_conditional_describe(const struct sg_conditional *condition,
                             CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    *params = (CUDA_CONDITIONAL_NODE_PARAMS){.handle = condition->handle,
                                             .type = condition->type,
                                             .size = condition->size,
                                             .phGraph_out = condition->bodies,
                                             .ctx = condition->context};
}

int sg_graph_has_conditionals(CUgraph graph)
{
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            return 1;
        }
    }
    return 0;
}

/* ---- as work ---- */

static struct sg_conditional *copied(const struct sg_conditional *condition)
{
    struct sg_conditional *copy = sg_resize(NULL, sizeof *copy);
    *copy = *condition;
    copy->orders = NULL;
    copy->bodies = sg_resize(NULL, condition->size * sizeof(CUgraph));
    for (unsigned i = 0; i < condition->size; i++) {
        copy->bodies[i] = sg_graph_copy(condition->bodies[i]);
        copy->bodies[i]->owned = 1;
    }
    return copy;
}

static void copy(struct sg_op *op) { op->conditional = copied(op->conditional); }

static void release(struct sg_op *op)
{
    struct sg_conditional *condition = op->conditional;
    for (unsigned i = 0; i < condition->size; i++) {
        if (condition->orders) {
            sg_graph_order_free(&condition->orders[i]);
        }
        sg_graph_free(condition->bodies[i]);
    }
    free(condition->orders);
    free(condition->bodies);
    free(condition);
}

void sg_conditional_begin(const struct sg_conditional *condition)
{
    sg_conditional_value_begin(condition->handle);
    for (unsigned i = 0; i < condition->size; i++) {
        const struct sg_graph_order *order = &condition->orders[i];
        for (size_t j = 0; j < order->count; j++) {
            if (order->nodes[j]->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
                sg_conditional_begin(order->nodes[j]->op->conditional);
            }
        }
    }
}

static void run_body(const struct sg_conditional *condition, unsigned body, CUstream stream)
{
    const struct sg_graph_order *order = &condition->orders[body];
    for (size_t i = 0; i < order->count; i++) {
        if (order->nodes[i]->op && !order->nodes[i]->disabled) {
            sg_op_count(order->nodes[i]->op);
        }
    }
    sg_graph_order_run(order, stream, NULL, 0);
}

static void execute(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    const struct sg_conditional *condition = op->conditional;
    (void)ready_ns;
    unsigned value = sg_conditional_value_get(condition->handle);
    switch (condition->type) {
    case CU_GRAPH_COND_TYPE_IF:
        if (value || condition->size == 2) {
            run_body(condition, value ? 0 : 1, stream);
        }
        return;
    case CU_GRAPH_COND_TYPE_WHILE:
        while (sg_conditional_value_get(condition->handle) && !stream->context->sticky_error &&
               !stream->context->destroyed) {
            run_body(condition, 0, stream);
        }
        return;
    case CU_GRAPH_COND_TYPE_SWITCH:
        if (value < condition->size) {
            run_body(condition, value, stream);
        }
        return;
    }
}

const struct sg_op_kind sg_kind_conditional = {
    .name = "conditional node", .execute = execute, .copy = copy, .release = release};
