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
    CUgraphEdgeData *edges; /* to them; NULL: nothing was said of any */
    size_t depend_count;
    CUDA_MEMCPY3D *given; /* as the program described its copy, or NULL */
    void **params;        /* what cuGraphKernelNodeGetParams handed out */
    unsigned id;
    int disabled, mark;
    unsigned visit; /* of the last search that came here */
};

/* An object of the program, and how many references the graph has. */
struct sg_held {
    CUuserObject object;
    unsigned count;
};

struct CUgraph_st {
    CUgraphNode first, *last;
    size_t count;
    struct sg_held *held;
    size_t held_count;
    unsigned id, next_id, visits;
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

/* A copy holds the same objects; a graph that is gone holds none. */
void sg_graph_hold_as(CUgraph copy, CUgraph graph);
void sg_graph_let_go(CUgraph graph);

/* CUDA_SUCCESS where a node may be added to the graph behind these. */
CUresult sg_graph_takes(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t count);

/* The nodes of a graph, what each depends on before it; a child graph stands in its parent's place. */
struct sg_graph_order {
    CUgraphNode *nodes;
    size_t count;
};

/* -1: a circle. The order is the caller's either way; also those of conditional bodies are made. */
int sg_graph_order_make(struct sg_graph_order *order, CUgraph graph);
void sg_graph_order_free(struct sg_graph_order *order);
/* Carries it out; the records are those of the nodes that record events. */
void sg_graph_order_run(const struct sg_graph_order *order, CUstream stream,
                        struct sg_record **records, size_t count);
/* What became of a node that was there when the graph was copied; NULL: nothing. */
CUgraphNode sg_graph_order_find(const struct sg_graph_order *order, CUgraphNode origin);

/* What became of a node of the graph that was made launchable; NULL: nothing. */
CUgraphNode sg_graph_exec_node(CUgraphExec exec, CUgraphNode node);
CUgraph sg_graph_exec_copy(CUgraphExec exec); /* a graph like the one that it was made of */
void sg_graph_exec_ref(CUgraphExec exec);
void sg_graph_exec_unref(CUgraphExec exec);
void sg_graph_execute(const struct sg_graph_launch *launch, CUstream stream, uint64_t ready_ns);

void sg_graph_count(CUgraphExec exec);

#endif
