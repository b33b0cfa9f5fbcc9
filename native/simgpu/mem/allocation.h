/* Memory without an address: cuMemCreate makes it, other processes import it. A handle is a chunk that the
 * program may map. */
#ifndef SIMGPU_ALLOCATION_H
#define SIMGPU_ALLOCATION_H

#include "cuda/cuda_calls.h"
#include "simgpu/base/devices.h"

struct sg_chunk;

/* Guards giving and releasing handles, and mapping chunks by them. */
void sg_allocations_lock(void);
void sg_allocations_unlock(void);

/* Returns NULL if there is no such handle. */
struct sg_chunk *sg_allocation(CUmemGenericAllocationHandle handle);

static inline int sg_is_granular(uint64_t value)
{
    return value != 0 && value % SG_BLOCK_BYTES == 0;
}

#endif
