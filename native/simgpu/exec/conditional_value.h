/* The values that conditional nodes look at and kernels set. A value is known by its handle, which belongs
 * to a graph. */
#ifndef SIMGPU_CONDITIONAL_VALUE_H
#define SIMGPU_CONDITIONAL_VALUE_H

#include "cuda/cuda_calls.h"

/* A new handle of the graph. `assigns`: every launch begins with the initial value. */
CUgraphConditionalHandle sg_conditional_value_new(CUgraph graph, unsigned initial, int assigns);
/* For kernels; what is no handle is ignored. */
void sg_conditional_value_set(uint64_t handle, unsigned value);
unsigned sg_conditional_value_get(uint64_t handle);
/* A launch begins. */
void sg_conditional_value_begin(uint64_t handle);
/* A node looks at it from now on. 0: there is no such handle. */
int sg_conditional_value_use(uint64_t handle);

/* Whether every handle of the graph is some node's. */
int sg_conditionals_are_used(CUgraph graph);
/* The graph is gone, and its handles with it. */
void sg_conditionals_release(CUgraph graph);

#endif
