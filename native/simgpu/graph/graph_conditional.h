/* Conditional nodes: parts of a graph that run or not, once or again and again, as a value says that
 * kernels set. */
#ifndef SIMGPU_GRAPH_CONDITIONAL_H
#define SIMGPU_GRAPH_CONDITIONAL_H

#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_order.h"

extern const struct sg_op_kind sg_kind_conditional;

CUresult sg_conditional_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params);
void sg_conditional_describe(const struct sg_conditional *condition,
                             CUDA_CONDITIONAL_NODE_PARAMS *params);

/* Its value, and those in its bodies, are what they are to be when a launch begins. */
void sg_conditional_begin(const struct sg_conditional *condition);

int sg_graph_has_conditionals(CUgraph graph);

#endif
