/* Graphs made ready to be launched. */
#ifndef SIMGPU_GRAPH_EXEC_H
#define SIMGPU_GRAPH_EXEC_H

#include <pthread.h>

#include "simgpu/graph/graph_order.h"

struct CUgraphExec_st {
    int refs;
    pthread_mutex_t running; /* a graph runs once at a time */
    CUgraph graph;           /* a copy of its own */
    struct sg_graph_order order;
    cuuint64_t flags;
    int claims; /* the memory that its nodes allocate */
};

/* The launch of a graph: op->graph. */
extern const struct sg_op_kind sg_kind_graph;

CUresult sg_graph_exec_new(CUgraphExec *out, CUgraph graph, cuuint64_t flags);
void sg_graph_exec_ref(CUgraphExec exec);
void sg_graph_exec_unref(CUgraphExec exec);

/* What became of a node of the graph that was made launchable; NULL: nothing. */
CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node);
CUgraph sg_graph_exec_copy(CUgraphExec exec); /* a graph like the one that it was made of */
/* Another graph must have the same form; its parameters are taken over. */
CUresult sg_graph_exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info);

/* What the launch waits for, and the places that the events stand for from now on. */
void sg_graph_exec_prepare_events(struct sg_op *launch, CUstream stream);

#endif
