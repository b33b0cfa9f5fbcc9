/* Freed extents that keep their memory and their addresses for the next allocation of their size.
 *
 * They are mapped nowhere, so that a program that uses an address after it freed it finds nothing there,
 * as with the driver. They are part of the credit (accounting.h), which limits them. Everything here is
 * under extent_lock.
 */
#ifndef MOIETY_SHIM_MEM_FREE_CACHE_H
#define MOIETY_SHIM_MEM_FREE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct extent;

/* Keeps an extent that is out of the table. False: its kind cannot be kept, or the cache is full. */
bool free_cache_put(struct extent *extent);
/* Takes the latest extent of this size and number of chunks; NULL: there is none. */
struct extent *free_cache_take(const struct device *device, uint64_t span, uint32_t chunks);
/* Destroys the oldest extents until no more than `most` bytes are cached; returns the bytes. */
uint64_t free_cache_shrink(const struct device *device, uint64_t most);
/* True if an address lies in a cached extent. */
bool free_cache_has(CUdeviceptr address);
void free_cache_after_fork(void);

#endif
