/* The memory of pools: segments from the device, cut into pieces and joined again. */
#ifndef SIMGPU_POOL_MEMORY_H
#define SIMGPU_POOL_MEMORY_H

#include "simgpu/mem/address.h"
#include "simgpu/mem/pool.h"

/* Memory for work that follows in the stream. */
CUresult sg_pool_alloc(CUmemoryPool pool, CUdeviceptr *out, size_t bytes, CUstream stream);
/* The range, which was taken out of the map, is free after all work submitted to the stream so far;
 * without a stream at once. */
void sg_pool_free(struct sg_range *range, CUstream stream);
/* Gives free segments back to the device until no more than so many bytes are reserved. */
void sg_pool_trim(CUmemoryPool pool, uint64_t keep_bytes);
/* After the program waited for the GPU: pools give back what is above their threshold. */
void sg_pools_synchronised(void);
/* The last context on the GPU is gone, and the pools' memory with it. */
void sg_pools_release_all(unsigned gpu);

/* Takes a pooled range that begins at the address out of the map; NULL: there is none. */
struct sg_range *sg_pool_range_remove(CUdeviceptr address);

#endif
