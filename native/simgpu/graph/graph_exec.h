/* Executable graphs: graphs that were instantiated and can be launched. */
#ifndef SIMGPU_GRAPH_EXEC_H
#define SIMGPU_GRAPH_EXEC_H

#include <pthread.h>

#include "simgpu/graph/graph_order.h"

struct CUgraphExec_st {
    int refs;
    pthread_mutex_t running; /* held while the graph runs: one launch at a time */
    CUgraph graph;           /* a copy of its own */
    struct sg_graph_order order;
    cuuint64_t flags;
    int claims; /* it has claimed the memory that its nodes allocate */
};

/* The launch of a graph: op->graph. */
extern const struct sg_op_kind sg_kind_graph;

CUresult sg_graph_exec_new(CUgraphExec *out, CUgraph graph, cuuint64_t flags);
void sg_graph_exec_ref(CUgraphExec exec);
void sg_graph_exec_unref(CUgraphExec exec);

/* The counterpart of a node of the graph that was instantiated, or NULL. */
CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node);
CUgraph sg_graph_exec_copy(CUgraphExec exec); /* a copy of its graph */
/* Takes over the parameters of another graph, which must have the same topology. */
CUresult sg_graph_exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info);

/* Adds to a launch what its event wait nodes wait for, and new records for its event record nodes. */
void sg_graph_exec_prepare_events(struct sg_op *launch, CUstream stream);

#endif
