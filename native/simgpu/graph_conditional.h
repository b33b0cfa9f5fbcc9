/* Conditional nodes: parts of a graph that run or not, once or again and again, as a value says that
 * kernels set. A value is known by its handle, which belongs to a graph. */
#ifndef SIMGPU_GRAPH_CONDITIONAL_H
#define SIMGPU_GRAPH_CONDITIONAL_H

#include "simgpu/graph.h"

/* What a node looks at and what it may run: graphs of its own. */
struct sg_conditional;

CUresult sg_conditional_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params);
struct sg_conditional *sg_conditional_copy(const struct sg_conditional *condition);
void sg_conditional_free(struct sg_conditional *condition);
void sg_conditional_describe(const struct sg_conditional *condition,
                             CUDA_CONDITIONAL_NODE_PARAMS *params);

/* Makes its bodies launchable. -1: a circle, or a node of a type that no body may have. */
int sg_conditional_prepare(struct sg_conditional *condition);
CUgraphNode sg_conditional_find(const struct sg_conditional *condition, CUgraphNode origin);
/* Its value, and those in its bodies, are what they are to be when a launch begins. */
void sg_conditional_begin(const struct sg_conditional *condition);
void sg_conditional_run(const struct sg_conditional *condition, CUstream stream);

/* For kernels; what is no handle is ignored. */
void sg_conditional_set(uint64_t handle, unsigned value);

int sg_graph_has_conditionals(CUgraph graph);
/* Whether every handle of the graph is some node's. */
int sg_conditionals_are_used(CUgraph graph);
/* The graph is gone, and its handles with it. */
void sg_conditionals_forget(CUgraph graph);

#endif
