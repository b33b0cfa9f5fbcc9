/* Blocks that were freed and keep their memory and their addresses for the next allocation of their size.
 *
 * They are mapped nowhere, so that whoever uses an address that it freed finds nothing there, as with
 * the driver. They are part of the allowance (accounting.h), which says how many there may be. Everything
 * here is under extent_lock.
 */
#ifndef MOIETY_SHIM_MEM_FREE_CACHE_H
#define MOIETY_SHIM_MEM_FREE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct extent;

/* Keeps an extent that is out of the table; false: it is not of the kind that can be, or there are many. */
bool free_cache_put(struct extent *extent);
/* One of this size and with so many chunks, the last that came; NULL: none. */
struct extent *free_cache_take(const struct device *device, uint64_t span, uint32_t chunks);
/* Destroys the oldest until no more than `most` bytes are spare; how many bytes that were. */
uint64_t free_cache_shrink(const struct device *device, uint64_t most);
/* Whether an address lies in one of them. */
bool free_cache_has(CUdeviceptr address);
void free_cache_after_fork(void);

#endif
