/* Where the program mapped memory that it made itself: a table in order of address, under blocks_lock. */
#ifndef MOIETY_SHIM_MAPPINGS_H
#define MOIETY_SHIM_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct allocation;

/* One cuMemMap: the first `bytes` of an allocation (the driver takes no other part) at `base`. */
struct mapping {
    CUdeviceptr base;
    uint64_t bytes;
    struct allocation *of;
    struct mapping *next_of; /* of the same allocation */
    CUmemAccessDesc *access; /* as the program allowed it, one for each location */
    uint32_t access_count;
};

/* 0, or -ENOMEM. */
int mappings_insert(struct mapping *mapping);
void mappings_remove(struct mapping *mapping);
/* The one that an address lies in; NULL: none. */
struct mapping *mappings_find(CUdeviceptr address);
/* The first that ends above an address; NULL: none. */
struct mapping *mappings_after(CUdeviceptr address);
/* Whether a range holds only whole ones, maybe with gaps (the driver's own) between them. */
bool mappings_are_whole(CUdeviceptr address, uint64_t bytes);
/* Remembers what may access it; 0, or -ENOMEM. */
int mapping_allow(struct mapping *mapping, const CUmemAccessDesc *access, size_t wanted);
/* How a location may access it: enum CUmemAccess_flags. */
unsigned mapping_access(const struct mapping *mapping, const CUmemLocation *location);
void mappings_after_fork(void);

#endif
