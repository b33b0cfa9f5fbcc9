/* Device memory that can leave: address ranges that stay, backed by chunks that come and go.
 *
 * An allocation is a reserved range of addresses. Its chunks are present (backed by memory of
 * the GPU), out (their bytes in the arena), new (nothing was ever in them) or hollow (nothing is
 * in them any more, decommit.h). Whoever is inside the open gate finds all but those present. Managed
 * memory is the exception: the driver moves its pages when they are touched (managed.h).
 */
#ifndef MOIETY_SHIM_MEM_ALLOC_H
#define MOIETY_SHIM_MEM_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* Whether so many bytes are within the process' limit. If they are not, the agent is asked all the same:
 * it writes down who is refused what. The caller is outside the gate and holds no lock. */
bool alloc_is_allowed(struct device *device, uint64_t bytes);
/* Allocates on the device of the current context; the driver's own error codes. */
CUresult alloc_device(CUdeviceptr *pointer, size_t bytes);
/* The same as managed memory, because the program asked for that; `attach` is its flag. */
CUresult alloc_managed(CUdeviceptr *pointer, size_t bytes, unsigned attach);
/* How alloc_device does it from now on: enum mw_memory_mode. */
void alloc_set_mode(uint32_t wanted);
/* Bytes allocated on the device, whole chunks. */
uint64_t alloc_bytes(const struct device *device);
/* ---- for what else is made of extents ---- */

struct extent;
/* An extent on a device, in the table and backed, as alloc_device would make it. The caller is
 * outside the gate and holds no lock. It is `making` until the caller says otherwise. */
CUresult alloc_extent(struct device *device, uint64_t bytes, struct extent **made);
/* ---- for the control thread (moving is in swap.h) ---- */

/* Locks out changes while a new agent is told the totals. */
void alloc_freeze(void);
void alloc_thaw(void);

void alloc_after_fork(void);

#endif
