/* The table of allocations, in order of address. Everything here is under blocks_lock. */
#ifndef MOIETY_SHIM_BLOCKS_H
#define MOIETY_SHIM_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/chunk.h"
#include "shim/devices.h"
#include "shim/lock.h"

#define GRANULE (2ull << 20) /* of the driver's mappings */

struct slab;
struct segment;

struct block {
    CUdeviceptr base;
    uint64_t bytes; /* as asked for */
    uint64_t span;  /* whole granules (managed: pages): what it is charged with */
    struct device *device;
    CUcontext context;
    struct slab *slab;       /* it holds small allocations; NULL: it is one */
    struct segment *segment; /* it is part of a pool (pieces.h) */
    bool managed;            /* paged by the driver, so it has no chunks of ours */
    uint64_t born;           /* counts up from allocation to allocation */
    uint32_t busy;           /* chunks that are being looked at or moved */
    bool leaves; /* it is about to be destroyed: nothing of it is looked at or moved any more */
    uint32_t chunk_count;
    struct chunk chunks[];
};

extern struct lock blocks_lock;

/* A block with all its chunks new, addresses reserved; not in the table yet. */
CUresult block_make(struct block **block, struct device *device, uint64_t bytes);
/* Unmaps what is present, gives back the rest, frees the addresses and the block. Returns the
 * bytes that were present. */
uint64_t block_destroy(struct block *block);
/* Backs all chunks; CUDA_ERROR_OUT_OF_MEMORY leaves those that succeeded. */
CUresult block_map(struct block *block);
/* Where its addresses end. */
CUdeviceptr block_beyond(const struct block *block);
/* The address of a chunk. */
CUdeviceptr block_at(const struct block *block, uint32_t chunk);
/* A chunk is being looked at or moved / is not any more. */
void block_begin(struct block *block, uint32_t chunk);
void block_end(struct block *block, uint32_t chunk);
/* Lets nothing more of the block be moved, and sleeps (with the lock dropped meanwhile) until what
 * is being moved of it has ended. It cannot be found from then on; the caller destroys it. */
void block_retire(struct block *block);

/* A number that no other allocation of this process has or had. */
uint64_t blocks_number(void);
int blocks_insert(struct block *block);
void blocks_remove(struct block *block);
/* The block that `pointer` lies in (before its end); NULL if none, or if it is about to go. */
struct block *blocks_find(CUdeviceptr pointer);
size_t blocks_count(void);
struct block *blocks_get(size_t index);
void blocks_after_fork(void);

#endif
