/* The nodes of a graph in an order in which they can be carried out, and conditional nodes, whose bodies
 * have orders of their own. */
#ifndef SIMGPU_GRAPH_ORDER_H
#define SIMGPU_GRAPH_ORDER_H

#include "simgpu/graph/graph.h"
#include "simgpu/stream/event.h"

/* Each node comes after its dependencies. The nodes of a child graph come before their parent node. */
struct sg_graph_order {
    CUgraphNode *nodes;
    size_t count;
};

/* What a conditional node reads, and the graphs that it may run. */
struct sg_conditional {
    CUgraphConditionalHandle handle;
    CUgraphConditionalNodeType type;
    unsigned size;
    CUcontext context;
    CUgraph *bodies;
    struct sg_graph_order *orders; /* NULL before it is instantiated */
};

/* Makes the order of a graph and of its conditional bodies. Returns -1 for a cycle, or for a node type that
 * no body may have. The caller frees the order either way. */
int sg_graph_order_make(struct sg_graph_order *order, CUgraph graph);
void sg_graph_order_free(struct sg_graph_order *order);
/* Runs the nodes in order. `records` belong to the event record nodes, in their order. */
void sg_graph_order_run(const struct sg_graph_order *order, CUstream stream,
                        struct sg_record **records, size_t count);
/* The counterpart of a node of the graph that was copied, or NULL. */
CUgraphNode sg_graph_order_find(const struct sg_graph_order *order, CUgraphNode origin);

#endif
