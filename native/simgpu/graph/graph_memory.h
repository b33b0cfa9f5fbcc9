/* Memory that graphs allocate. A node has its address from the beginning; memory comes behind it when
 * the graph is launched first, and stays there until it is trimmed or the graph is gone.
 */
#ifndef SIMGPU_GRAPH_MEMORY_H
#define SIMGPU_GRAPH_MEMORY_H

#include "simgpu/graph/graph.h"

struct sg_graph_memory;

extern const struct sg_op_kind sg_kind_graph_alloc;
extern const struct sg_op_kind sg_kind_graph_free;

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
CUresult sg_graph_memory_map(CUgraphNode *order, size_t size, int frees_first);
void sg_graph_memory_launched(CUgraphNode *order, size_t size, CUstream stream);

/* What is behind addresses that nothing is allocated at goes back to the GPU. */
void sg_graph_memory_trim(unsigned gpu);

/* Bytes on one GPU, now and at most. */
struct sg_graph_memory_sums {
    uint64_t used, used_high, reserved, reserved_high;
};
struct sg_graph_memory_sums sg_graph_memory_sums(unsigned gpu);
/* The most is what it is now. */
void sg_graph_memory_reset_high(unsigned gpu, int used, int reserved);

/* What a node allocates or frees. -1: it does neither. */
int sg_graph_memory_of(CUgraphNode node, unsigned *gpu, size_t *bytes, CUdeviceptr *address);

#endif
