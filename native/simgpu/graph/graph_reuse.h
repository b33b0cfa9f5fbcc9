/* Memory that a graph has freed, for allocations behind the free. */
#ifndef SIMGPU_GRAPH_REUSE_H
#define SIMGPU_GRAPH_REUSE_H

#include "simgpu/graph/graph.h"

/* Returns whether all that the graph does with the memory is over when the nodes `after` are done, and it is free
 * then. */
int sg_graph_memory_is_free(CUgraph graph, const struct sg_graph_memory *memory,
                            const CUgraphNode *after, size_t count);

#endif
