#include "simgpu/graph/graph_order.h"

#include <stdlib.h>

#include "simgpu/base/resize.h"

static int may_be_in_body(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
           type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
           type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

/* Makes the bodies launchable. */
static int prepare(struct sg_conditional *condition)
{
    condition->orders = calloc(condition->size, sizeof *condition->orders);
    if (!condition->orders) {
        abort();
    }
    for (unsigned i = 0; i < condition->size; i++) {
        struct sg_graph_order *order = &condition->orders[i];
        if (sg_graph_order_make(order, condition->bodies[i]) != 0) {
            return -1;
        }
        for (size_t j = 0; j < order->count; j++) {
            if (!may_be_in_body(order->nodes[j]->type)) {
                return -1;
            }
        }
    }
    return 0;
}

static int put(struct sg_graph_order *order, CUgraphNode node)
{
    if (node->mark == 2) {
        return 0;
    }
    if (node->mark == 1) {
        return -1;
    }
    node->mark = 1;
    for (size_t i = 0; i < node->depend_count; i++) {
        if (put(order, node->depends[i]) != 0) {
            return -1;
        }
    }
    for (CUgraphNode inner = node->child ? node->child->first : NULL; inner; inner = inner->next) {
        if (put(order, inner) != 0) {
            return -1;
        }
    }
    if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && prepare(node->op->conditional) != 0) {
        return -1;
    }
    node->mark = 2;
    order->nodes = sg_resize(order->nodes, (order->count + 1) * sizeof *order->nodes);
    order->nodes[order->count++] = node;
    return 0;
}

int sg_graph_order_make(struct sg_graph_order *order, CUgraph graph)
{
    *order = (struct sg_graph_order){0};
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (put(order, node) != 0) {
            return -1;
        }
    }
    return 0;
}

void sg_graph_order_free(struct sg_graph_order *order)
{
    free(order->nodes);
    *order = (struct sg_graph_order){0};
}

void sg_graph_order_run(const struct sg_graph_order *order, CUstream stream,
                        struct sg_record **records, size_t count)
{
    size_t recorded = 0;
    for (size_t i = 0; i < order->count && !stream->context->sticky_error; i++) {
        struct sg_op *op = order->nodes[i]->op;
        struct sg_record *record = NULL;
        if (op && op->kind == &sg_kind_event_record) {
            record = recorded < count ? records[recorded] : NULL;
            recorded++;
        }
        if (record) {
            record->time_ns = stream->end_ns;
            sg_record_done(record);
        } else if (op && !order->nodes[i]->disabled) {
            sg_op_execute(op, stream, stream->end_ns);
        }
    }
}

static CUgraphNode find_in_bodies(const struct sg_conditional *condition, CUgraphNode origin)
{
    CUgraphNode found = NULL;
    for (unsigned i = 0; i < condition->size && !found && condition->orders; i++) {
        found = sg_graph_order_find(&condition->orders[i], origin);
    }
    return found;
}

CUgraphNode sg_graph_order_find(const struct sg_graph_order *order, CUgraphNode origin)
{
    for (size_t i = 0; i < order->count; i++) {
        CUgraphNode node = order->nodes[i];
        CUgraphNode found = node->origin == origin ? node
                            : node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL
                                ? find_in_bodies(node->op->conditional, origin)
                                : NULL;
        if (found) {
            return found;
        }
    }
    return NULL;
}
