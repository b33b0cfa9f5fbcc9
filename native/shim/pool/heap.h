/* The memory of pools: segments, cut into pieces and joined again. Under pools_lock.
 *
 * A segment is an extent like that of any allocation (extent.h), so it leaves and comes back as one. A
 * piece is in use or free. A free one can be used by what follows in the stream in which it was freed, and by
 * every stream once that one has come so far (stream_fence.h).
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
    struct piece *more, **from; /* in its class of free pieces, or in its bucket of used pieces */
    struct segment *segment;
    CUdeviceptr base;
    uint64_t size;     /* whole units */
    uint64_t bytes;    /* as asked for */
    uint64_t sequence; /* of its allocation, while it is used */
    bool used;
    bool decommitted; /* free, but without memory and not to be used (decommit.h) */
    struct stream_fence
        *fence;      /* the stream in which it was freed; NULL: it is free for every stream */
    uint64_t number; /* of its free in that stream */
};

struct segment {
    struct segment *next;
    struct pool *pool;
    struct extent *extent;
    struct piece *first;
    uint64_t bytes; /* that are not decommitted */
};

/* The free pieces of a pool, by size. */
struct heap {
    struct piece *free[HEAP_CLASSES];
    struct piece *decommitted;
};

/* A free piece of at least `size` bytes that the fence's stream may use at once; `any`: also one that it has
 * to wait for. NULL: there is none. */
struct piece *heap_find(struct heap *heap, uint64_t size, const struct stream_fence *fence,
                        bool any);
/* Uses a free piece, and cuts off what is too much. -ENOMEM: it stays free. */
int heap_take(struct heap *heap, struct piece *piece, uint64_t size, uint64_t bytes);
/* Frees a piece after what was submitted to the fence's stream; NULL: at once. The piece is not valid
 * afterwards, since neighbours join. */
void heap_free(struct heap *heap, struct piece *piece, struct stream_fence *fence);
/* True if a piece is free for every stream. */
bool heap_is_free_for_all(struct piece *piece);
/* Takes `bytes` of a free piece, from `base` on, out of use; the rest on either side stays free. -ENOMEM: all
 * of it stays free. */
int heap_decommit(struct heap *heap, struct piece *piece, CUdeviceptr base, uint64_t bytes);
/* The used piece that begins there; NULL: none. */
struct piece *heap_piece_at(CUdeviceptr base);
/* The used piece of the segment that an address lies in; NULL: none. */
struct piece *heap_piece_of(const struct segment *segment, CUdeviceptr address);
/* Joins free neighbours, after fences have come further. */
void heap_join(struct heap *heap, struct segment *segments);
/* Adds a segment of one free piece; NULL: there is no memory for that. */
struct segment *heap_add_segment(struct heap *heap, struct pool *pool, struct extent *extent);
/* True if a free piece waits for its stream. */
bool heap_is_pending(struct segment *segments);
/* True if all of it is free for every stream, or decommitted. */
bool heap_segment_is_free(const struct segment *segment);
/* Forgets all its pieces: nothing is allocated from the segment any more. */
void heap_drop_pieces(struct segment *segment);
/* Forgets all its pieces and the segment itself; the caller takes care of its extent. */
void heap_drop_segment(struct segment *segment);
void heap_after_fork(void);

#endif
