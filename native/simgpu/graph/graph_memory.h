/* Memory that graphs allocate. A node gets its address when it is made. The first launch maps memory there,
 * which stays until it is trimmed or the graph is destroyed. */
#ifndef SIMGPU_GRAPH_MEMORY_H
#define SIMGPU_GRAPH_MEMORY_H

#include "simgpu/graph/graph.h"

struct sg_graph_memory;

extern const struct sg_op_kind sg_kind_graph_alloc;
extern const struct sg_op_kind sg_kind_graph_free;

/* Makes work that allocates `bytes`, and returns the address. It is to become a node of the graph behind `after`; it
 * gets memory that the graph has freed by then, if some is large enough. */
CUresult sg_graph_alloc_op(struct sg_op **op, CUgraph graph, const CUgraphNode *after, size_t count,
                           unsigned gpu, size_t bytes, CUdeviceptr *address);
/* Makes work that frees what other work allocates at the address. */
CUresult sg_graph_free_op(struct sg_op **op, CUdeviceptr address);
/* Frees it outside of graphs, in a stream's order or (NULL) at once. Returns CUDA_ERROR_INVALID_VALUE if
 * nothing is allocated there. */
CUresult sg_graph_memory_free(CUdeviceptr address, CUstream stream);

/* Returns whether a node allocates or frees memory. Such a graph cannot be copied or changed. */
int sg_graph_has_memory(CUgraph graph);
/* An executable graph claims the memory of its nodes, or gives up its claim. Only one can have it. */
CUresult sg_graph_memory_claim(CUgraphNode *order, size_t size);
void sg_graph_memory_disclaim(CUgraphNode *order, size_t size);
/* Maps memory for all allocations of a launch that begins, and notes what is allocated after it. */
CUresult sg_graph_memory_map(CUgraphNode *order, size_t size, int frees_first);
void sg_graph_memory_launched(CUgraphNode *order, size_t size, CUstream stream);

/* Gives memory back to the GPU that is mapped and not allocated. */
void sg_graph_memory_trim(unsigned gpu);

/* Bytes on one GPU, now and at the highest. */
struct sg_graph_memory_sums {
    uint64_t used, used_high, reserved, reserved_high;
};
struct sg_graph_memory_sums sg_graph_memory_sums(unsigned gpu);
/* Sets a highest value to the current one. */
void sg_graph_memory_reset_high(unsigned gpu, int used, int reserved);

/* The memory that a node allocates or frees. Returns -1 if it does neither. */
int sg_graph_memory_of(CUgraphNode node, unsigned *gpu, size_t *bytes, CUdeviceptr *address);

#endif
