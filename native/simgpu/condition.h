/* Conditional nodes: parts of a graph that run or not, once or again and again, as a value says that
 * kernels set. A value is known by its handle, which belongs to a graph. */
#ifndef SIMGPU_CONDITION_H
#define SIMGPU_CONDITION_H

#include "simgpu/graph.h"

/* What a node looks at and what it may run: graphs of its own. */
struct sg_condition;

CUresult sg_condition_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t count,
                          CUDA_CONDITIONAL_NODE_PARAMS *params);
struct sg_condition *sg_condition_copy(const struct sg_condition *condition);
void sg_condition_free(struct sg_condition *condition);
void sg_condition_describe(const struct sg_condition *condition,
                           CUDA_CONDITIONAL_NODE_PARAMS *params);

/* Makes its bodies launchable. -1: a circle, or a node of a type that no body may have. */
int sg_condition_prepare(struct sg_condition *condition);
CUgraphNode sg_condition_find(const struct sg_condition *condition, CUgraphNode origin);
/* Its value, and those in its bodies, are what they are to be when a launch begins. */
void sg_condition_begin(const struct sg_condition *condition);
void sg_condition_run(const struct sg_condition *condition, CUstream stream);

/* For kernels; what is no handle is ignored. */
void sg_condition_set(uint64_t handle, unsigned value);

int sg_graph_has_conditions(CUgraph graph);
/* Whether every handle of the graph is some node's. */
int sg_conditions_are_used(CUgraph graph);
/* The graph is gone, and its handles with it. */
void sg_conditions_forget(CUgraph graph);

#endif
