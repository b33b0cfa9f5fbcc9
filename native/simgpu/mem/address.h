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
    uint64_t offset; /* in the chunk */
    int access;      /* SG_RANGE_MAPPED: enum CUmemAccess_flags, the most that any GPU has */
    uint8_t access_of[SG_DEVICES_MAX];
    struct sg_block *block;
    struct sg_managed *managed;
    CUmemoryPool pool;      /* SG_RANGE_POOLED */
    struct sg_piece *piece; /* of the pool; NULL: another process's */
};

/* Addresses out of the reservation; 0 when there are none left. `hint` is taken when it is free. */
uint64_t sg_addresses_alloc(uint64_t size, uint64_t alignment, uint64_t hint);
void sg_addresses_free(uint64_t base, uint64_t size);
int sg_address_is_device(uint64_t address);

/* Nothing is there any more: every access faults. */
void sg_address_clear(uint64_t base, uint64_t size);

/* The map. Ranges are found under the lock and stay valid while it is held. */
void sg_ranges_lock(void);
void sg_ranges_unlock(void);
void sg_ranges_add(struct sg_range *range);
void sg_ranges_remove(struct sg_range *range);
struct sg_range *sg_ranges_find(
    uint64_t address); /* anything but SG_RANGE_MAPPED and SG_RANGE_REGISTERED inside others */
struct sg_range *sg_ranges_find_mapped(uint64_t address);      /* SG_RANGE_MAPPED */
struct sg_range *sg_ranges_mapped_after(uint64_t address);     /* the first that ends above */
struct sg_range *sg_ranges_next_of_context(CUcontext context); /* some range of the context */
struct sg_range *sg_ranges_next_of_pool(CUmemoryPool pool);    /* some range of the pool */

/* Does the program have all these bytes? A gap inside a reservation is for the GPU to find. */
int sg_is_device_range(uint64_t address, uint64_t bytes);
int sg_is_pinned(uint64_t address, uint64_t bytes);
/* On which GPU the address lies; -1: host memory. */
int sg_gpu_of_address(uint64_t address);

#endif
