/* Extents: device memory that can leave, cut into chunks that come and go behind addresses that stay.
 * Everything here is under extent_lock, where nothing else is said. */
#ifndef MOIETY_SHIM_MEM_EXTENT_H
#define MOIETY_SHIM_MEM_EXTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/base/lock.h"
#include "shim/mem/chunk.h"
#include "shim/mem/device.h"
#include "shim/mem/extent_ops.h"

#define GRANULE (2ull << 20) /* of the driver's mappings */

struct slab;
struct segment;
struct vmm_handle;

/* What an extent is used for. */
enum extent_use {
    EXTENT_OF_ONE,  /* one allocation of the program */
    EXTENT_OF_SLAB, /* small allocations share it (slab.h) */
    EXTENT_OF_POOL, /* a segment of a pool (pool/heap.h) */
};

struct extent {
    CUdeviceptr base; /* 0: it has no addresses of its own */
    uint64_t bytes;   /* as asked for */
    uint64_t span;    /* whole granules, or pages of managed memory; it is charged with these */
    uint64_t decommitted_bytes; /* and not with these: given back (pool/decommit.h), or damaged */
    struct device *device;
    CUcontext context;
    const struct extent_ops *ops; /* of its kind */
    enum extent_use use;
    union {
        struct slab *slab;             /* EXTENT_OF_SLAB */
        struct segment *segment;       /* EXTENT_OF_POOL */
        struct vmm_handle *vmm_handle; /* the kind EXTENT_MAPPED */
    };
    uint32_t pins;       /* reasons for which it never leaves the GPU (pin.h) */
    bool was_pinned;     /* at some time: others may have access that we do not know of */
    bool exported;       /* others have, or had, a token for it */
    uint64_t sequence;   /* rises from allocation to allocation */
    uint32_t busy;       /* how many of its chunks are busy */
    uint32_t move_locks; /* held by threads; while there is one, no chunk begins to move */
    bool making;         /* a thread is still making it, and only that thread destroys it */
    bool orphan;         /* its context went while it was being made: its maker destroys it */
    bool retiring;       /* about to be destroyed: it is not found, scanned or moved any more */
    uint32_t chunk_count;
    struct chunk chunks[];
};

extern struct lock extent_lock;
/* A chunk was damaged (swap/damage.h), so new allocations have to avoid it. Needs no lock. */
extern atomic_bool extents_damaged;
/* Grows whenever an address may have come to another allocation, or to none. Who reads it without the lock knows whether
 * what was found earlier is still so. */
extern _Atomic uint64_t extents_version;

static inline void extents_changed(void)
{
    atomic_fetch_add_explicit(&extents_version, 1, memory_order_release);
}

static inline bool extent_is_managed(const struct extent *extent)
{
    return extent->ops->kind == EXTENT_MANAGED;
}

/* How an allocation is cut into chunks. */
enum cut {
    CUT_PLAIN,
    CUT_FINE,  /* parts of it may be given back before the whole */
    CUT_WHOLE, /* one chunk */
};

/* The bytes that an allocation is charged with, and the number of its chunks. */
uint64_t extent_span(uint64_t bytes);
uint32_t extent_chunks(const struct device *device, uint64_t bytes, enum cut cut);
/* Makes an extent with reserved addresses and untouched chunks; it is not in the table yet. */
CUresult extent_make(struct extent **extent, struct device *device, uint64_t bytes, enum cut cut);
/* Makes an extent of another kind without addresses; `whole`: it has one chunk. */
CUresult extent_make_unplaced(struct extent **extent, const struct extent_ops *ops,
                              struct device *device, uint64_t bytes, bool whole);
/* Unmaps all chunks, which are resident, and keeps their memory for another allocation. */
void extent_unmap(struct extent *extent);
/* Gives back the memory of all chunks, their host copies, the addresses and the extent itself. Returns the
 * bytes that were on the GPU. */
uint64_t extent_destroy(struct extent *extent);
/* Gives memory to up to `most` chunks that lack it. *whole: no chunk lacks memory now. After
 * CUDA_ERROR_OUT_OF_MEMORY the chunks that got memory keep it. */
CUresult extent_map(struct extent *extent, uint32_t most, bool *whole);
/* Gives memory to all chunks that lack it. No lock is held: mapping many chunks takes long, and other
 * threads get extent_lock between the steps. */
CUresult extent_map_in_steps(struct extent *extent);
/* Where its addresses end. */
CUdeviceptr extent_end(const struct extent *extent);
/* The address by which a chunk can be copied; 0: it has none before extent_ensure_mapped. */
static inline CUdeviceptr extent_address(const struct extent *extent, uint32_t chunk)
{
    return extent->ops->address(extent, chunk);
}
/* Gives a chunk that has memory an address by which it can be copied. */
static inline CUresult extent_ensure_mapped(struct extent *extent, uint32_t chunk)
{
    return extent->ops->ensure_mapped(extent, chunk);
}
/* Gives one chunk memory, at every address where it is seen. The caller changes its state. */
CUresult extent_map_chunk(struct extent *extent, uint32_t chunk);
/* Takes the memory of a chunk away again; nothing may use it any more. The caller changes its state. */
static inline void extent_unmap_chunk(struct extent *extent, uint32_t chunk)
{
    extent->ops->unmap(extent, chunk);
}
/* A chunk is scanned or moved from here to extent_end_busy. */
void extent_begin_busy(struct extent *extent, uint32_t chunk);
void extent_end_busy(struct extent *extent, uint32_t chunk);
/* No chunk begins to move and the extent is not destroyed until extent_release_moves. */
static inline void extent_hold_moves(struct extent *extent) { extent->move_locks++; }
void extent_release_moves(struct extent *extent);
/* Sleeps until nothing of the extent is being moved. The caller holds its moves, and no lock. */
void extent_await_moves(const struct extent *extent);
/* Nothing more of the extent is moved, it cannot be found any more, and the caller destroys it once
 * extent_await_holders has returned (release_extent does both). */
void extent_retire(struct extent *extent);
/* Sleeps until nothing of a retiring extent is being moved and no thread holds its moves. The caller has
 * retired it, and holds no lock. */
void extent_await_holders(const struct extent *extent);
/* The kind of bytes that it is charged as: MW_ALLOC_*. */
uint32_t extent_charge_flags(const struct extent *extent);

/* A number that no other allocation of this process has or had. Needs no lock. */
uint64_t extent_next_sequence(void);
void extent_after_fork(void);

#endif
