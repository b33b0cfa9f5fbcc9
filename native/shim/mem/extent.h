/* Extents: device memory that can leave, cut into chunks that come and go behind addresses that stay.
 * Everything here is under extent_lock, where nothing else is said. */
#ifndef MOIETY_SHIM_MEM_EXTENT_H
#define MOIETY_SHIM_MEM_EXTENT_H

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
    CUdeviceptr base;           /* 0: it has no address of its own */
    uint64_t bytes;             /* as asked for */
    uint64_t span;              /* whole granules (managed: pages): what it is charged with, */
    uint64_t decommitted_bytes; /* less these, which have no memory (decommit.h) */
    struct device *device;
    CUcontext context;
    const struct extent_ops *ops; /* of its kind */
    enum extent_use use;
    union {
        struct slab *slab;             /* EXTENT_OF_SLAB */
        struct segment *segment;       /* EXTENT_OF_POOL */
        struct vmm_handle *vmm_handle; /* the kind EXTENT_MAPPED */
    };
    bool pinned;         /* others can see its memory, so it never leaves */
    uint64_t sequence;   /* counts up from allocation to allocation */
    uint32_t busy;       /* chunks that are being looked at or moved */
    uint32_t move_locks; /* of threads that change or wait for it: no more of it is moved */
    bool making;         /* whoever makes it is not through yet, and alone may destroy it, */
    bool orphan;         /* and must, as its context is gone */
    bool retiring; /* it is about to be destroyed: nothing of it is looked at or moved any more */
    uint32_t chunk_count;
    struct chunk chunks[];
};

extern struct lock extent_lock;

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

/* What it is charged with, and how many chunks that are. */
uint64_t extent_span(uint64_t bytes);
uint32_t extent_chunks(const struct device *device, uint64_t bytes, enum cut cut);
/* An extent with all its chunks new, addresses reserved; not in the table yet. */
CUresult extent_make(struct extent **extent, struct device *device, uint64_t bytes, enum cut cut);
/* The same without addresses, of another kind; `whole`: as one chunk. */
CUresult extent_make_unplaced(struct extent **extent, const struct extent_ops *ops,
                              struct device *device, uint64_t bytes, bool whole);
/* Unmaps all its chunks, which are present, and keeps their memory. */
void extent_unmap(struct extent *extent);
/* Unmaps what is present, gives back the rest, frees the addresses and the extent. Returns the
 * bytes that were present. */
uint64_t extent_destroy(struct extent *extent);
/* Backs up to `most` chunks; *whole: and now all that are not decommitted. CUDA_ERROR_OUT_OF_MEMORY leaves those that
 * succeeded. */
CUresult extent_map(struct extent *extent, uint32_t most, bool *whole);
/* Backs all chunks that lack memory, with no lock held: others get extent_lock between the steps, since
 * mapping many chunks takes long. */
CUresult extent_map_in_steps(struct extent *extent);
/* Where its addresses end. */
CUdeviceptr extent_end(const struct extent *extent);
/* The address of a chunk; what the program maps itself has one after extent_ensure_mapped or extent_map_chunk. */
static inline CUdeviceptr extent_address(const struct extent *extent, uint32_t chunk)
{
    return extent->ops->address(extent, chunk);
}
/* Sees to it that a chunk that is present has an address by which it can be copied. */
static inline CUresult extent_ensure_mapped(struct extent *extent, uint32_t chunk)
{
    return extent->ops->ensure_mapped(extent, chunk);
}
/* Backs one chunk with memory, at every address where it is to be seen. The caller changes its state. */
CUresult extent_map_chunk(struct extent *extent, uint32_t chunk);
/* Takes the memory of a chunk away again; nothing may use it any more. The caller changes its state. */
static inline void extent_unmap_chunk(struct extent *extent, uint32_t chunk)
{
    extent->ops->unmap(extent, chunk);
}
/* A chunk is being looked at or moved / is not any more. */
void extent_begin_busy(struct extent *extent, uint32_t chunk);
void extent_end_busy(struct extent *extent, uint32_t chunk);
/* From now on nothing more of it is moved, nor is it destroyed, until that is released. */
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
/* Which kind of bytes it is charged as: MW_ALLOC_*. */
uint32_t extent_charge_flags(const struct extent *extent);

/* A number that no other allocation of this process has or had. */
uint64_t extent_next_sequence(void);
void extent_after_fork(void);

#endif
