/* Memory that a capture frees, for what the same stream allocates behind the free: the driver gives such
 * allocations of a graph the same memory, so it is charged once. */
#ifndef MOIETY_SHIM_MEM_GRAPH_REUSE_H
#define MOIETY_SHIM_MEM_GRAPH_REUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct graph_part;

/* The stream captures, and is about to allocate: charges what it cannot have again. CUDA_ERROR_OUT_OF_MEMORY: there is
 * no room for it. The caller is outside the gate and holds no lock. */
CUresult graph_reuse_begin(CUstream stream, struct device *device, uint64_t bytes,
                           struct graph_part **part);
/* The driver has allocated it, at `pointer`, or has not. */
void graph_reuse_end(struct graph_part *part, bool succeeded, CUdeviceptr pointer);
/* The stream captures, and has freed what is there. */
void graph_reuse_freed(CUstream stream, CUdeviceptr pointer);
/* The capture into the graph has ended. */
void graph_reuse_forget(CUgraph graph);
void graph_reuse_after_fork(void);

#endif
