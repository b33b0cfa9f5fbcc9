/* Graphs: work that was written down once and is launched as a whole. */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include "simgpu/graph/user_object.h"
#include "simgpu/stream/op.h"

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

struct CUgraph_st {
    CUgraphNode first, *last;
    size_t count;
    struct sg_held_objects held;
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

/* CUDA_SUCCESS where a node may be added to the graph behind these. */
CUresult sg_graph_check_dependencies(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                     size_t count);

/* Nodes that record and wait for events: op->event. The former are done where a graph is carried out, the
 * latter where it is launched. */
extern const struct sg_op_kind sg_kind_event_record;
extern const struct sg_op_kind sg_kind_event_wait;

#endif
