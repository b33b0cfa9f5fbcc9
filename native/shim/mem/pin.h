/* Memory that becomes unmovable, because other processes or devices get to see it.
 *
 * A pin is decided by the agent like an allocation: what others were admitted must still have its turns
 * beside it. So it is asked for outside the gate, before the call, and given back if the call fails. An
 * extent is pinned once for each reason, and charged as such once. Memory of the driver's own, and what
 * the driver moves by itself, has no pins.
 */
#ifndef MOIETY_SHIM_MEM_PIN_H
#define MOIETY_SHIM_MEM_PIN_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct extent;

/* Pins what a range of addresses shows; `call` is the entry point that wants it. All of it is present once
 * the caller has entered the gate. CUDA_ERROR_OUT_OF_MEMORY: it is refused, and nothing is pinned. Waits
 * for the agent: the caller is outside the gate and holds no lock. */
CUresult pin_range(CUdeviceptr address, size_t size, const char *call);
/* The same for the memory of a handle. */
CUresult pin_handle(CUmemGenericAllocationHandle handle, const char *call);

/* With extent_lock held: ends a pin that was made for the same range, or handle. */
void unpin_range(CUdeviceptr address, size_t size);
void unpin_handle(CUmemGenericAllocationHandle handle);
/* The same for one extent. */
void unpin_extent(struct extent *extent);

#endif
