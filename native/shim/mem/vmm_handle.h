/* Memory that the program made with cuMemCreate, and maps where it likes.
 *
 * The program gets a handle of ours, which stays the same while the memory behind it leaves and comes
 * back. Behind it stands an extent of the table (extent.h) without an address: its chunks are mapped at
 * every address where the program mapped it, from wherever it is copied. What is mapped nowhere, or not
 * for its own GPU to read and write, is copied through a staging range: addresses of ours.
 *
 * Everything here is under extent_lock.
 */
#ifndef MOIETY_SHIM_MEM_VMM_HANDLE_H
#define MOIETY_SHIM_MEM_VMM_HANDLE_H

#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"
#include "shim/mem/vmm_chunk.h"
#include "shim/mem/vmm_mappings.h"

struct extent;

/* Makes a handle, and an extent without memory that is not in the table yet. The program has it once. */
CUresult vmm_handle_make(struct extent **extent, struct device *device, uint64_t bytes,
                         const CUmemAllocationProp *prop);
/* NULL: the handle is none of ours, or was released. */
struct vmm_handle *vmm_handle_find(CUmemGenericAllocationHandle handle);
/* The program releases a handle. True: the program neither has nor maps it any more, so the caller retires
 * the extent. */
bool vmm_handle_release(struct vmm_handle *vmm_handle);
/* Maps the first `bytes` of it, all of which have memory; the driver's error codes. */
CUresult vmm_handle_map(struct vmm_handle *vmm_handle, CUdeviceptr address, uint64_t bytes,
                        unsigned long long flags);
/* Takes a mapping away; nothing of its extent is being moved. True as of vmm_handle_release. */
bool vmm_handle_unmap(struct vmm_mapping *mapping);
/* True if there is memory at an address of the mapping now, so that the driver knows it. */
bool vmm_handle_is_present_at(const struct vmm_mapping *mapping, CUdeviceptr address);
/* The pinned handle whose memory the driver knows by this handle of its own; NULL: none. */
struct vmm_handle *vmm_handle_of_driver(CUmemGenericAllocationHandle real);

void vmm_handle_after_fork(void);

#endif
