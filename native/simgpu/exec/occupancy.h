/* Occupancy: how many blocks of a kernel run at once. Only threads and shared memory count. */
#ifndef SIMGPU_OCCUPANCY_H
#define SIMGPU_OCCUPANCY_H

#include "cuda/cuda_calls.h"

/* Returns how many blocks fit on one multiprocessor; `shared` is in bytes per block. */
int sg_blocks_per_multiprocessor(unsigned gpu, int threads, size_t shared);
/* Returns the largest cluster size that a launch of the function may have. */
unsigned sg_cluster_most(unsigned gpu, CUfunction function);

#endif
