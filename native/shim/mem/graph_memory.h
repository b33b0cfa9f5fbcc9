/* Memory that graphs allocate. The driver takes it when a graph is launched for the first time, keeps it, and gives it
 * to later graphs. Until then it is charged by the nodes of the graph, and from then on by what the driver says. */
#ifndef MOIETY_SHIM_MEM_GRAPH_MEMORY_H
#define MOIETY_SHIM_MEM_GRAPH_MEMORY_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* True once a graph of this process allocates memory. */
extern atomic_bool graph_memory_is_used;

/* Charges a node that is about to be added to a graph. CUDA_ERROR_OUT_OF_MEMORY: there is no room for its bytes. The
 * caller is outside the gate and holds no lock, as for all that follows. */
CUresult graph_memory_add(CUgraph graph, struct device *device, uint64_t bytes);
/* The driver did not make the node. */
void graph_memory_take_back(CUgraph graph, const struct device *device, uint64_t bytes);
/* What a stream captures: its graph (NULL: none), and a number that no other capture has or had. */
struct graph_capture {
    CUgraph graph;
    cuuint64_t id;
};
struct graph_capture graph_memory_captured(CUstream stream);
/* A capture has ended: what was `captured` is called `graph` now; NULL: it is gone. */
void graph_memory_end_capture(CUgraph captured, CUgraph graph);
void graph_memory_instantiated(CUgraph graph, CUgraphExec exec);
/* Charges what was trimmed since the last launch. CUDA_ERROR_OUT_OF_MEMORY: there is no room for it. */
CUresult graph_memory_begin_launch(CUgraphExec exec);
/* It was launched or uploaded, so the driver has its memory. */
void graph_memory_end_launch(CUgraphExec exec);
void graph_memory_forget_graph(CUgraph graph);
void graph_memory_forget_exec(CUgraphExec exec);
/* Has the driver give back what no launch uses; the driver's own error codes. */
CUresult graph_memory_trim(CUdevice device);
/* The device has no context any more. */
void graph_memory_forget_device(const struct device *device);
void graph_memory_after_fork(void);

#endif
