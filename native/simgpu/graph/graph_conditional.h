/* Conditional nodes: a value that kernels set decides whether and how often their bodies run. */
#ifndef SIMGPU_GRAPH_CONDITIONAL_H
#define SIMGPU_GRAPH_CONDITIONAL_H

#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_order.h"

extern const struct sg_op_kind sg_kind_conditional;

CUresult sg_conditional_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params);
void sg_conditional_describe(const struct sg_conditional *condition,
                             CUDA_CONDITIONAL_NODE_PARAMS *params);

/* Sets its value, and those in its bodies, to the state at the beginning of a launch. */
void sg_conditional_begin(const struct sg_conditional *condition);

int sg_graph_has_conditionals(CUgraph graph);

#endif
