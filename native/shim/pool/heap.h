/* The memory of pools: segments, cut into pieces and joined again. Under pools_lock.
 *
 * A segment is an extent like that of any allocation (extent.h), so it leaves and comes back as one. A
 * piece is in use, or free: for whatever follows in the stream it was freed in, and for everybody
 * once that has come so far (stream_fence.h).
 */
#ifndef MOIETY_SHIM_POOL_HEAP_H
#define MOIETY_SHIM_POOL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/mem/extent.h"
#include "shim/pool/stream_fence.h"

#define HEAP_UNIT 512u
#define HEAP_CLASSES 160

struct pool;

struct piece {
    struct piece *next, *previous; /* neighbours in the segment, by address */
    struct piece *more, **from;    /* in its class of free ones, or in its bucket of used ones */
    struct segment *segment;
    CUdeviceptr base;
    uint64_t size;     /* whole units */
    uint64_t bytes;    /* as asked for */
    uint64_t sequence; /* used: which allocation it is */
    bool used;
    bool decommitted;           /* free, but without memory: not for use (decommit.h) */
    struct stream_fence *fence; /* free: NULL, or where it was freed */
    uint64_t number;
};

struct segment {
    struct segment *next;
    struct pool *pool;
    struct extent *extent;
    struct piece *first;
    uint64_t bytes; /* of it that are not hollow */
};

/* The free ones of a pool, by size. */
struct heap {
    struct piece *free[HEAP_CLASSES];
    struct piece *decommitted;
};

/* A free piece that is large enough for `size` bytes and may be used by the line's stream at once;
 * `any`: also one that this has to wait for. NULL: none. */
struct piece *heap_find(struct heap *heap, uint64_t size, const struct stream_fence *fence,
                        bool any);
/* Takes a free piece, cuts off what is too much, and enters it as used. -ENOMEM: it stays free. */
int heap_take(struct heap *heap, struct piece *piece, uint64_t size, uint64_t bytes);
/* A used one is free after what was submitted to the line; NULL: for everybody. Its neighbours may
 * join it: the piece is not valid afterwards. */
void heap_free(struct heap *heap, struct piece *piece, struct stream_fence *fence);
/* Whether a piece is free for everybody. */
bool heap_is_free_for_all(struct piece *piece);
/* So many bytes of a free piece, from `base` on, are not for use any more; what is left of it on
 * either side is. -ENOMEM: all of it is. */
int heap_decommit(struct heap *heap, struct piece *piece, CUdeviceptr base, uint64_t bytes);
/* The used piece that begins there; NULL: none. */
struct piece *heap_piece_at(CUdeviceptr base);
/* The used piece of the segment that an address lies in; NULL: none. */
struct piece *heap_piece_of(const struct segment *segment, CUdeviceptr address);
/* Joins free neighbours, after lines have come further. */
void heap_join(struct heap *heap, struct segment *segments);
/* A segment of one free piece; NULL: no memory. */
struct segment *heap_add_segment(struct heap *heap, struct pool *pool, struct extent *extent);
/* Whether anything free in them is not yet so for everybody. */
bool heap_is_pending(struct segment *segments);
/* Whether nothing of it is in use: all of it is free for everybody, or hollow. */
bool heap_segment_is_free(const struct segment *segment);
/* Forgets all its pieces and the segment itself; the caller takes care of its extent. */
void heap_drop_segment(struct segment *segment);
void heap_after_fork(void);

#endif
