/* Where the program mapped memory that it made itself: a table in order of address, under extent_lock. */
#ifndef MOIETY_SHIM_MEM_VMM_MAPPINGS_H
#define MOIETY_SHIM_MEM_VMM_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct vmm_handle;

/* One cuMemMap: the first `bytes` of an allocation (the driver takes no other part) at `base`. */
struct vmm_mapping {
    CUdeviceptr base;
    uint64_t bytes;
    struct vmm_handle *of;
    struct vmm_mapping *next_of; /* of the same allocation */
    CUmemAccessDesc *access;     /* as the program allowed it, one for each location */
    uint32_t access_count;
};

/* 0, or -ENOMEM. */
int vmm_mappings_insert(struct vmm_mapping *mapping);
void vmm_mappings_remove(struct vmm_mapping *mapping);
/* The one that an address lies in; NULL: none. */
struct vmm_mapping *vmm_mappings_find(CUdeviceptr address);
/* The first that ends above an address; NULL: none. */
struct vmm_mapping *vmm_mappings_after(CUdeviceptr address);
/* Whether a range holds only whole ones, maybe with gaps (the driver's own) between them. */
bool vmm_mappings_are_whole(CUdeviceptr address, uint64_t bytes);
/* Remembers what may access it; 0, or -ENOMEM. */
int vmm_mapping_allow(struct vmm_mapping *mapping, const CUmemAccessDesc *access, size_t wanted);
/* How a location may access it: enum CUmemAccess_flags. */
unsigned vmm_mapping_access(const struct vmm_mapping *mapping, const CUmemLocation *location);
void vmm_mappings_after_fork(void);

#endif
