/* The table of allocations, in order of address, and beside it those that have no address of their
 * own (allocation.h). Everything here is under blocks_lock. */
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
struct allocation;

struct block {
    CUdeviceptr base;      /* 0: it has no address of its own */
    uint64_t bytes;        /* as asked for */
    uint64_t span;         /* whole granules (managed: pages): what it is charged with, */
    uint64_t hollow_bytes; /* less these, which have no memory (hollow.h) */
    struct device *device;
    CUcontext context;
    struct slab *slab;             /* it holds small allocations; NULL: it is one */
    struct segment *segment;       /* it is part of a pool (pieces.h) */
    struct allocation *allocation; /* the program maps it itself; NULL: it has addresses */
    bool managed;                  /* paged by the driver, so it has no chunks of ours */
    bool stays;                    /* others can see its memory, so it never leaves */
    uint64_t born;                 /* counts up from allocation to allocation */
    uint32_t busy;                 /* chunks that are being looked at or moved */
    uint32_t holds; /* of threads that change or wait for it: no more of it is moved */
    bool making;    /* whoever makes it is not through yet, and alone may destroy it, */
    bool orphan;    /* and must, as its context is gone */
    bool leaves;    /* it is about to be destroyed: nothing of it is looked at or moved any more */
    uint32_t chunk_count;
    struct chunk chunks[];
};

extern struct lock blocks_lock;

/* How an allocation is cut into chunks. */
enum cut {
    CUT_PLAIN,
    CUT_FINE,  /* parts of it may be given back before the whole */
    CUT_WHOLE, /* one chunk */
};

/* What it is charged with, and how many chunks that are. */
uint64_t block_span(uint64_t bytes);
uint32_t block_chunks(const struct device *device, uint64_t bytes, enum cut cut);
/* A block with all its chunks new, addresses reserved; not in the table yet. */
CUresult block_make(struct block **block, struct device *device, uint64_t bytes, enum cut cut);
/* The same without addresses; `whole`: as one chunk. The caller gives it an allocation. */
CUresult block_make_apart(struct block **block, struct device *device, uint64_t bytes, bool whole);
/* Unmaps all its chunks, which are present, and keeps their memory. */
void block_unmap(struct block *block);
/* Unmaps what is present, gives back the rest, frees the addresses and the block. Returns the
 * bytes that were present. */
uint64_t block_destroy(struct block *block);
/* Backs up to `most` chunks; *whole: and now all that are not hollow. CUDA_ERROR_OUT_OF_MEMORY leaves those that
 * succeeded. */
CUresult block_map(struct block *block, uint32_t most, bool *whole);
/* Where its addresses end. */
CUdeviceptr block_beyond(const struct block *block);
/* The address of a chunk; what the program maps itself has one after block_reach or block_back. */
CUdeviceptr block_at(const struct block *block, uint32_t chunk);
/* Sees to it that a chunk that is present has an address by which it can be copied. */
CUresult block_reach(struct block *block, uint32_t chunk);
/* Backs one chunk with memory, at every address where it is to be seen. */
CUresult block_back(struct block *block, uint32_t chunk);
/* Takes the memory of one that is present away again; nothing may use it any more. */
void block_unback(struct block *block, uint32_t chunk);
/* A chunk is being looked at or moved / is not any more. */
void block_begin(struct block *block, uint32_t chunk);
void block_end(struct block *block, uint32_t chunk);
/* Lets nothing more of the block be moved, and sleeps (with the lock dropped meanwhile) until what
 * is being moved of it has ended. It cannot be found from then on; the caller destroys it. */
void block_retire(struct block *block);
/* From now on nothing more of it is moved, nor is it destroyed, until it is let go. */
void block_hold(struct block *block);
void block_let_go(struct block *block);
/* Sleeps (with the lock dropped meanwhile) until nothing of the block is being moved. What the caller
 * knew of it and everything else may be wrong afterwards. */
void block_await(struct block *block);
/* From now on it never leaves; all of it is present. Does nothing the second time. */
void block_keep(struct block *block);
/* Which kind of bytes it is charged as: MW_ALLOC_*. */
uint32_t block_charge(const struct block *block);

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
