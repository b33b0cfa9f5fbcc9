/* Small allocations share one granule, as the driver's own do. Under extent_lock. */
#ifndef MOIETY_SHIM_MEM_SLAB_H
#define MOIETY_SHIM_MEM_SLAB_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/mem/extent.h"

#define SLAB_LARGEST (1ull << 20) /* larger ones get extents of their own */

/* Allocates from a slab of this device, context and kind. False: none has room, so the caller makes an extent
 * and slab_adopt makes it a slab. */
bool slab_take(const struct device *device, CUcontext context, bool managed, size_t bytes,
               CUdeviceptr *pointer);
/* Makes a slab of a mapped extent of one granule. */
int slab_adopt(struct extent *extent);
/* Frees what slab_take returned; false: `pointer` is not the start of an allocation. *empty: nothing is left,
 * and the caller destroys the slab and its extent. */
bool slab_give_back(struct extent *extent, CUdeviceptr pointer, bool *empty);
/* The allocation that an address lies in: its start, its bytes as asked for, and its number. */
bool slab_range(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes,
                uint64_t *number);
/* Ends a slab before its extent is destroyed. */
void slab_drop(struct extent *extent);
void slab_after_fork(void);

#endif
