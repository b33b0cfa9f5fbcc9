/* The values that conditional nodes read and kernels set. A handle names a value and belongs to a graph. */
#ifndef SIMGPU_CONDITIONAL_VALUE_H
#define SIMGPU_CONDITIONAL_VALUE_H

#include "cuda/cuda_calls.h"

/* Makes a handle of the graph. With `assigns` each launch begins with the initial value. */
CUgraphConditionalHandle sg_conditional_value_new(CUgraph graph, unsigned initial, int assigns);
/* Sets a value; a kernel calls it. An unknown handle is ignored. */
void sg_conditional_value_set(uint64_t handle, unsigned value);
unsigned sg_conditional_value_get(uint64_t handle);
/* Sets the value back at the beginning of a launch, if the handle asks for it. */
void sg_conditional_value_begin(uint64_t handle);
/* Marks the handle as used by a node. Returns 0 if there is no such handle. */
int sg_conditional_value_use(uint64_t handle);

/* Returns whether a node uses each handle of the graph. */
int sg_conditionals_are_used(CUgraph graph);
/* Releases the handles of a graph that is destroyed. */
void sg_conditionals_release(CUgraph graph);

#endif
