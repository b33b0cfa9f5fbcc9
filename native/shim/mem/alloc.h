/* Allocating device memory that can leave.
 *
 * An allocation is an extent (extent.h) or a part of one (slab.h): a range of addresses that stays, behind
 * which chunks get memory, lose it to other programs and get it back. All chunks of an extent have memory
 * while a thread is inside the open gate. Managed memory is the exception: the driver moves its pages when
 * they are touched (managed.h).
 */
#ifndef MOIETY_SHIM_MEM_ALLOC_H
#define MOIETY_SHIM_MEM_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* True if the bytes are within the limit of this process. If they are not, the agent is asked all the same,
 * because it records what was refused. The caller is outside the gate and holds no lock. */
bool alloc_is_allowed(struct device *device, uint64_t bytes);
/* Allocates on the device of the current context; the driver's own error codes. */
CUresult alloc_device(CUdeviceptr *pointer, size_t bytes);
/* Allocates managed memory, because the program asked for that; `attach` is its flag. */
CUresult alloc_managed(CUdeviceptr *pointer, size_t bytes, unsigned attach);
/* What alloc_device allocates from now on: enum mw_memory_mode. */
void alloc_set_mode(uint32_t wanted);
/* Bytes that are allocated on the device. */
uint64_t alloc_bytes(const struct device *device);

/* ---- for pools ---- */

struct extent;
/* Makes an extent as alloc_device does, in the table and with memory. It is `making` until the caller ends
 * that. The caller is outside the gate and holds no lock. */
CUresult alloc_extent(struct device *device, uint64_t bytes, struct extent **made);

/* ---- for the control thread ---- */

/* Keeps extents and balances as they are while a new agent is told the totals. */
void alloc_freeze(void);
void alloc_thaw(void);

void alloc_after_fork(void);

#endif
