/* Blocks that were freed and keep their memory and their addresses for the next allocation of their size.
 *
 * They are mapped nowhere, so that whoever uses an address that it freed finds nothing there, as with
 * the driver. They are part of the allowance (allowance.h), which says how many there may be. Everything
 * here is under blocks_lock.
 */
#ifndef MOIETY_SHIM_SPARES_H
#define MOIETY_SHIM_SPARES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/devices.h"

struct block;

/* Keeps a block that is out of the table; false: it is not of the kind that can be, or there are many. */
bool spares_keep(struct block *block);
/* One of this size and with so many chunks, the last that came; NULL: none. */
struct block *spares_take(const struct device *device, uint64_t span, uint32_t chunks);
/* Destroys the oldest until no more than `most` bytes are spare; how many bytes that were. */
uint64_t spares_shrink(const struct device *device, uint64_t most);
/* Whether an address lies in one of them. */
bool spares_have(CUdeviceptr address);
void spares_after_fork(void);

#endif
