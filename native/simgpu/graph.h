/* Graphs: work that was written down once and is launched as a whole. */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include "simgpu/stream.h"

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNode next;
    CUgraphNodeType type;
    struct sg_op *op;
    CUgraph child;      /* CU_GRAPH_NODE_TYPE_GRAPH */
    CUgraphNode origin; /* in the graph that this one was copied from */
    CUgraphNode *depends;
    size_t depend_count;
    unsigned id;
    int disabled, mark;
    unsigned visit; /* of the last search that came here */
};

struct CUgraph_st {
    CUgraphNode first, *last;
    size_t count;
    unsigned next_id, visits;
    int owned; /* by a node or a launchable graph: not for the program to destroy */
};

CUgraph sg_graph_new(void);
CUgraphNode sg_graph_add(CUgraph graph, CUgraphNodeType type, struct sg_op *op,
                         const CUgraphNode *depends, size_t count);
void sg_graph_free(CUgraph graph);
void sg_graph_remove(CUgraphNode node);
int sg_graph_leads_to(CUgraphNode from, CUgraphNode node); /* along edges, or the same */
int sg_graph_unlink(CUgraphNode from, CUgraphNode to);     /* 1: there was such an edge */

/* A copy is apart from its original; sg_graph_copy_of: what became of a node there, NULL: nothing. */
CUgraph sg_graph_copy(CUgraph graph);
CUgraphNode sg_graph_copy_of(CUgraph copy, CUgraphNode node);

/* What became of a node of the graph that was made launchable; NULL: nothing. */
CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node);
void sg_graph_exec_ref(CUgraphExec exec);
void sg_graph_exec_unref(CUgraphExec exec);
void sg_graph_execute(CUgraphExec exec, CUstream stream, uint64_t ready_ns);

void sg_graph_count(CUgraphExec exec);

#endif
