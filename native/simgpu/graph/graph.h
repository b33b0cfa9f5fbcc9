/* Graphs: work that is described once and launched as a whole. */
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
    CUgraphEdgeData *edges; /* of the dependencies; NULL: plain edges */
    size_t depend_count;
    CUDA_MEMCPY3D *given; /* as the program described its copy, or NULL */
    void **params;        /* what cuGraphKernelNodeGetParams returned */
    unsigned id;
    int disabled, mark;
    unsigned visit; /* number of the last search that visited the node */
};

struct CUgraph_st {
    CUgraphNode first, *last;
    size_t count;
    struct sg_held_objects held;
    unsigned id, next_id, visits;
    int owned; /* belongs to a node or an executable graph; the program may not destroy it */
};

CUgraph sg_graph_new(void);
CUgraphNode sg_graph_add(CUgraph graph, CUgraphNodeType type, struct sg_op *op,
                         const CUgraphNode *depends, size_t count);
void sg_graph_free(CUgraph graph);
void sg_graph_remove(CUgraphNode node);
int sg_graph_leads_to(CUgraphNode from,
                      CUgraphNode node);               /* true along edges, and for the same node */
int sg_graph_unlink(CUgraphNode from, CUgraphNode to); /* returns 1 if there was such an edge */

/* Copies a graph. sg_graph_copy_of returns a node's counterpart in the copy, or NULL. */
CUgraph sg_graph_copy(CUgraph graph);
CUgraphNode sg_graph_copy_of(CUgraph copy, CUgraphNode node);

/* Checks that a node may be added to the graph behind these nodes. */
CUresult sg_graph_check_dependencies(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                     size_t count);

/* Nodes that record or wait for an event (op->event). A graph's run carries out the records, its launch the
 * waits. */
extern const struct sg_op_kind sg_kind_event_record;
extern const struct sg_op_kind sg_kind_event_wait;

#endif
