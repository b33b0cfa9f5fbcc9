/* The nodes of a graph in an order in which they can be carried out, and conditional nodes, whose bodies
 * have orders of their own. */
#ifndef SIMGPU_GRAPH_ORDER_H
#define SIMGPU_GRAPH_ORDER_H

#include "simgpu/graph/graph.h"
#include "simgpu/stream/event.h"

/* Each node comes after those that it depends on; a child graph stands in its parent's place. */
struct sg_graph_order {
    CUgraphNode *nodes;
    size_t count;
};

/* What a conditional node looks at and what it may run: graphs of its own. */
struct sg_conditional {
    CUgraphConditionalHandle handle;
    CUgraphConditionalNodeType type;
    unsigned size;
    CUcontext context;
    CUgraph *bodies;
    struct sg_graph_order *orders; /* NULL before it is launchable */
};

/* -1: a circle, or a conditional body with a node of a type that no body may have. The order is the
 * caller's either way; also those of conditional bodies are made. */
int sg_graph_order_make(struct sg_graph_order *order, CUgraph graph);
void sg_graph_order_free(struct sg_graph_order *order);
/* Carries it out; the records are those of the nodes that record events. */
void sg_graph_order_run(const struct sg_graph_order *order, CUstream stream,
                        struct sg_record **records, size_t count);
/* What became of a node that was there when the graph was copied; NULL: nothing. */
CUgraphNode sg_graph_order_find(const struct sg_graph_order *order, CUgraphNode origin);

#endif
