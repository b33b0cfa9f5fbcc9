/* Memory that graphs allocate. A node has its address from the beginning; memory comes behind it when
 * the graph is launched first, and stays there until it is trimmed or the graph is gone.
 */
#ifndef SIMGPU_GRAPH_MEMORY_H
#define SIMGPU_GRAPH_MEMORY_H

#include "simgpu/address.h"
#include "simgpu/graph.h"

struct sg_graph_memory;

void sg_graph_memory_ref(struct sg_graph_memory *memory);
void sg_graph_memory_unref(struct sg_graph_memory *memory);

/* Work that allocates so many bytes; its address. */
CUresult sg_graph_alloc_op(struct sg_op **op, unsigned gpu, size_t bytes, CUdeviceptr *address);
/* Work that frees what such work allocates there. */
CUresult sg_graph_free_op(struct sg_op **op, CUdeviceptr address);
/* Frees it outside of graphs, in a stream's order; NULL: at once. CUDA_ERROR_INVALID_VALUE: there is
 * none, or it is not allocated now. */
CUresult sg_graph_memory_free(CUdeviceptr address, CUstream stream);

/* Whether any of the nodes allocates or frees: such a graph cannot be copied or changed. */
int sg_graph_has_memory(CUgraph graph);
/* A graph becomes launchable, or not any more: once at a time. */
CUresult sg_graph_memory_claim(CUgraphNode *order, size_t size);
void sg_graph_memory_disclaim(CUgraphNode *order, size_t size);
/* Before a launch: memory behind everything it allocates. After it: what is allocated now. */
CUresult sg_graph_memory_back(CUgraphNode *order, size_t size, int frees_first);
void sg_graph_memory_launched(CUgraphNode *order, size_t size, CUstream stream);

#endif
