/* The device addresses of a process, and what lies where.
 *
 * All device memory lies in one large reservation that malloc never sees, so that a stale
 * device pointer hits nothing instead of the program's own data.
 */
#ifndef SIMGPU_ADDRESS_H
#define SIMGPU_ADDRESS_H

#include "cuda/cuda_calls.h"
#include "simgpu/shared/profile.h"

enum sg_range_kind {
    SG_RANGE_ALLOCATED = 1, /* cuMemAlloc */
    SG_RANGE_RESERVED,      /* cuMemAddressReserve */
    SG_RANGE_MAPPED,        /* cuMemMap; lies in an SG_RANGE_RESERVED, in a map of its own */
    SG_RANGE_MANAGED,
    SG_RANGE_IMPORTED,     /* cuIpcOpenMemHandle */
    SG_RANGE_GLOBAL,       /* a variable of a module */
    SG_RANGE_HOST,         /* cuMemHostAlloc */
    SG_RANGE_REGISTERED,   /* cuMemHostRegister */
    SG_RANGE_POOLED,       /* cuMemAllocAsync */
    SG_RANGE_GRAPH_MEMORY, /* of a graph's node */
};

struct sg_chunk;
struct sg_multicast;
struct sg_block;
struct sg_managed;
struct sg_piece;

struct sg_range {
    uint64_t base, size; /* as the program asked for */
    uint64_t span;       /* as taken from the reservation */
    enum sg_range_kind kind;
    unsigned gpu;
    CUcontext context;
    unsigned flags;
    uint64_t id; /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    struct sg_chunk *chunk;
    struct sg_multicast *multicast; /* SG_RANGE_MAPPED: it is mapped there, and no chunk */
    uint64_t offset;                /* in the chunk */
    int access; /* SG_RANGE_MAPPED: enum CUmemAccess_flags, the most that any GPU has */
    uint8_t access_of[SG_DEVICES_MAX];
    struct sg_block *block;
    struct sg_managed *managed;
    CUmemoryPool pool;      /* SG_RANGE_POOLED */
    struct sg_piece *piece; /* of the pool; NULL: another process's */
};

/* Allocates addresses of the reservation, at `hint` if it is free. Returns 0 if there are none left. */
uint64_t sg_addresses_alloc(uint64_t size, uint64_t alignment, uint64_t hint);
void sg_addresses_free(uint64_t base, uint64_t size);
int sg_address_is_device(uint64_t address);

/* Unmaps what is there: every access faults. */
void sg_address_clear(uint64_t base, uint64_t size);

/* The map of ranges. A caller holds the lock, and uses a range only as long. */
void sg_ranges_lock(void);
void sg_ranges_unlock(void);
void sg_ranges_add(struct sg_range *range);
void sg_ranges_remove(struct sg_range *range);
/* Finds the range at an address, of any kind but SG_RANGE_MAPPED. Of two it is not the SG_RANGE_REGISTERED
 * one. Returns NULL if there is none. */
struct sg_range *sg_ranges_find(uint64_t address);
/* The same among the SG_RANGE_MAPPED ones. */
struct sg_range *sg_ranges_find_mapped(uint64_t address);
/* The first SG_RANGE_MAPPED one that ends above the address. */
struct sg_range *sg_ranges_mapped_after(uint64_t address);
/* Any range of a context, or of a pool. */
struct sg_range *sg_ranges_next_of_context(CUcontext context);
struct sg_range *sg_ranges_next_of_pool(CUmemoryPool pool);

/* Returns whether the program has all these bytes. Gaps inside a reservation are not looked for: the GPU
 * faults on them. */
int sg_is_device_range(uint64_t address, uint64_t bytes);
int sg_is_pinned(uint64_t address, uint64_t bytes);
/* The GPU that the address is on, or -1 for host memory. */
int sg_gpu_of_address(uint64_t address);

#endif
