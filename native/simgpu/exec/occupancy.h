/* How much of a kernel runs on a card at once: by threads and shared memory alone. */
#ifndef SIMGPU_OCCUPANCY_H
#define SIMGPU_OCCUPANCY_H

#include "cuda/cuda_calls.h"

/* Blocks of so many threads and so much shared memory each. */
int sg_blocks_per_multiprocessor(unsigned gpu, int threads, size_t shared);
/* Blocks in the largest cluster that a launch of the function may have. */
unsigned sg_cluster_most(unsigned gpu, CUfunction function);

#endif
