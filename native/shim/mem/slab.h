/* Small allocations share one granule, as the driver's own do. Under extent_lock. */
#ifndef MOIETY_SHIM_MEM_SLAB_H
#define MOIETY_SHIM_MEM_SLAB_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/mem/extent.h"

#define SLAB_LARGEST (1ull << 20) /* larger ones get extents of their own */

/* Takes room from a slab of this device, context and kind; false: make an extent and slab_adopt it. */
bool slab_take(const struct device *device, CUcontext context, bool managed, size_t bytes,
               CUdeviceptr *pointer);
/* Makes a slab of a mapped extent of one granule. */
int slab_adopt(struct extent *extent);
/* Gives back what slab_take returned; false if `pointer` is not the start of one. *empty: the
 * extent holds nothing any more and is no slab now; the caller destroys it. */
bool slab_give_back(struct extent *extent, CUdeviceptr pointer, bool *empty);
bool slab_range(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes,
                uint64_t *number);
/* Before its extent is destroyed with everything in it. */
void slab_drop(struct extent *extent);
void slab_after_fork(void);

#endif
