/* Memory that the program made with cuMemCreate, and maps where it likes.
 *
 * The program gets a handle of ours, which stays the same while the memory behind it leaves and comes
 * back. Behind it stands a block of the table (blocks.h) without an address: its chunks are mapped at
 * every address where the program mapped it, from wherever it is copied. What is mapped nowhere, or not
 * for its own GPU to read and write, is copied through a window: addresses of ours.
 *
 * Everything here is under blocks_lock.
 */
#ifndef MOIETY_SHIM_ALLOCATION_H
#define MOIETY_SHIM_ALLOCATION_H

#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/devices.h"
#include "shim/mappings.h"

struct block;

struct allocation {
    CUmemGenericAllocationHandle handle;
    uint32_t handles; /* how often the program has it */
    CUmemAllocationProp prop;
    struct block *block;
    struct mapping *mappings;
    CUdeviceptr window; /* 0: none was needed yet */
};

/* With nothing behind it yet, and not in the table; one handle is given out. */
CUresult allocation_make(struct block **block, struct device *device, uint64_t bytes,
                         const CUmemAllocationProp *prop);
/* NULL: the handle is none of ours (any more). */
struct allocation *allocation_find(CUmemGenericAllocationHandle handle);
/* Gives a handle back. True: nobody has or sees it any more, so the caller discards the block. */
bool allocation_release(struct allocation *allocation);
/* Maps the first `bytes` of it, all of which are present; the driver's error codes. */
CUresult allocation_map(struct allocation *allocation, CUdeviceptr address, uint64_t bytes,
                        unsigned long long flags);
/* Takes a mapping away; nothing of its block is being moved. True as above. */
bool allocation_unmap(struct mapping *mapping);
/* Whether there is memory at an address of the mapping now, so that the driver knows of it. */
bool allocation_sees(const struct mapping *mapping, CUdeviceptr address);
/* The one whose memory the driver knows by this handle, among those that never leave; NULL: none. */
struct allocation *allocation_of_real(CUmemGenericAllocationHandle real);

/* ---- for blocks.c ---- */

/* The address by which a chunk is copied; 0: it has none. */
CUdeviceptr allocation_at(const struct block *block, uint32_t chunk);
CUresult allocation_reach(struct block *block, uint32_t chunk);
CUresult allocation_back(struct block *block, uint32_t chunk);
void allocation_unback(struct block *block, uint32_t chunk);
/* Frees what belongs to it beside its chunks, which are gone. */
void allocation_end(struct block *block);
void allocation_after_fork(void);

#endif
