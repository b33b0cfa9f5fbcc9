/* One chunk of memory that the program made itself: it is mapped at every address where the program mapped
 * it. Everything here is under extent_lock. */
#ifndef MOIETY_SHIM_MEM_VMM_CHUNK_H
#define MOIETY_SHIM_MEM_VMM_CHUNK_H

#include "cuda/cuda_abi.h"
#include "shim/mem/vmm_mappings.h"
#include <stdint.h>

struct extent;

struct vmm_handle {
    CUmemGenericAllocationHandle handle;
    uint32_t handles; /* how many handles the program has */
    CUmemAllocationProp prop;
    struct extent *extent;
    struct vmm_mapping *mappings;
    struct vmm_handle *next_gone; /* in the list of handles that one call unmapped last */
    CUdeviceptr
        staging; /* a range for copies of what the program did not map; 0: none was needed yet */
};

/* Where a chunk begins in its extent. */
uint64_t vmm_chunk_offset(const struct extent *extent, uint32_t chunk);
/* How many bytes of a chunk lie in a mapping, from the chunk's first on. */
uint64_t vmm_chunk_part(const struct vmm_mapping *mapping, const struct extent *extent,
                        uint32_t chunk);
/* Unmaps a chunk at one of the program's addresses. */
void vmm_chunk_hide(const struct vmm_mapping *mapping, const struct extent *extent, uint32_t chunk);

/* ---- as in struct extent_ops ---- */

CUdeviceptr vmm_chunk_address(const struct extent *extent, uint32_t chunk);
CUresult vmm_chunk_ensure_mapped(struct extent *extent, uint32_t chunk);
CUresult vmm_chunk_map(struct extent *extent, uint32_t chunk);
void vmm_chunk_unmap(struct extent *extent, uint32_t chunk);

#endif
