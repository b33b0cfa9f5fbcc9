/* The memory of pools: segments from the device, cut into pieces and joined again. */
#ifndef SIMGPU_POOL_MEMORY_H
#define SIMGPU_POOL_MEMORY_H

#include "simgpu/mem/address.h"
#include "simgpu/mem/pool.h"

/* Allocates memory for work that follows in the stream. */
CUresult sg_pool_alloc(CUmemoryPool pool, CUdeviceptr *out, size_t bytes, CUstream stream);
/* Frees a range that is out of the map, after all work submitted to the stream so far. Without a stream it
 * is free at once. */
void sg_pool_free(struct sg_range *range, CUstream stream);
/* Gives free segments back to the device until at most `keep_bytes` are reserved. */
void sg_pool_trim(CUmemoryPool pool, uint64_t keep_bytes);
/* Called after the program waited for the GPU: trims each pool to its release threshold. */
void sg_pools_synchronised(void);
/* Releases all pool memory on a GPU whose last context is destroyed. */
void sg_pools_release_all(unsigned gpu);

/* Removes the pooled range that begins at the address from the map. Returns NULL if there is none. */
struct sg_range *sg_pool_range_remove(CUdeviceptr address);

#endif
