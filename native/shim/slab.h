/* Small allocations share one granule, as the driver's own do. Under blocks_lock. */
#ifndef MOIETY_SHIM_SLAB_H
#define MOIETY_SHIM_SLAB_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/blocks.h"

#define SLAB_LARGEST (1ull << 20) /* larger ones get blocks of their own */

/* Takes room from a slab of this device, context and kind; false: make a block and slab_adopt it. */
bool slab_take(const struct device *device, CUcontext context, bool managed, size_t bytes,
               CUdeviceptr *pointer);
/* Makes a slab of a mapped block of one granule. */
int slab_adopt(struct block *block);
/* Gives back what slab_take returned; false if `pointer` is not the start of one. *empty: the
 * block holds nothing any more and is no slab now; the caller destroys it. */
bool slab_give_back(struct block *block, CUdeviceptr pointer, bool *empty);
bool slab_range(const struct block *block, CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes,
                uint64_t *number);
/* Before its block is destroyed with everything in it. */
void slab_drop(struct block *block);
void slab_after_fork(void);

#endif
