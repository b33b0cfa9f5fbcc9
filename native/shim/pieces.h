/* The memory of pools: segments, cut into pieces and joined again. Under pools_lock.
 *
 * A segment is a block like that of any allocation (blocks.h), so it leaves and comes back as one. A
 * piece is in use, or free: for whatever follows in the stream it was freed in, and for everybody
 * once that has come so far (lines.h).
 */
#ifndef MOIETY_SHIM_PIECES_H
#define MOIETY_SHIM_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/blocks.h"
#include "shim/lines.h"

#define PIECE_UNIT 512u
#define PIECE_CLASSES 160

struct pool;

struct piece {
    struct piece *next, *previous; /* neighbours in the segment, by address */
    struct piece *more, **from;    /* in its class of free ones, or in its bucket of used ones */
    struct segment *segment;
    CUdeviceptr base;
    uint64_t size;  /* whole units */
    uint64_t bytes; /* as asked for */
    uint64_t born;  /* used: which allocation it is */
    bool used;
    bool hollow;       /* free, but without memory: not for use (hollow.h) */
    struct line *line; /* free: NULL, or where it was freed */
    uint64_t number;
};

struct segment {
    struct segment *next;
    struct pool *pool;
    struct block *block;
    struct piece *first;
    uint64_t bytes; /* of it that are not hollow */
};

/* The free ones of a pool, by size. */
struct pieces {
    struct piece *free[PIECE_CLASSES];
    struct piece *hollow;
};

/* A free piece that is large enough for `size` bytes and may be used by the line's stream at once;
 * `any`: also one that this has to wait for. NULL: none. */
struct piece *piece_find(struct pieces *pieces, uint64_t size, const struct line *line, bool any);
/* Takes a free piece, cuts off what is too much, and enters it as used. -ENOMEM: it stays free. */
int piece_take(struct pieces *pieces, struct piece *piece, uint64_t size, uint64_t bytes);
/* A used one is free after what was submitted to the line; NULL: for everybody. Its neighbours may
 * join it: the piece is not valid afterwards. */
void piece_give_back(struct pieces *pieces, struct piece *piece, struct line *line);
/* Whether a piece is free for everybody. */
bool piece_is_for_all(struct piece *piece);
/* So many bytes of a free piece, from `base` on, are not for use any more; what is left of it on
 * either side is. -ENOMEM: all of it is. */
int piece_hollow(struct pieces *pieces, struct piece *piece, CUdeviceptr base, uint64_t bytes);
/* The used piece that begins there; NULL: none. */
struct piece *piece_at(CUdeviceptr base);
/* The used piece of the segment that an address lies in; NULL: none. */
struct piece *piece_of(const struct segment *segment, CUdeviceptr address);
/* Joins free neighbours, after lines have come further. */
void pieces_join(struct pieces *pieces, struct segment *segments);
/* A segment of one free piece; NULL: no memory. */
struct segment *segment_make(struct pieces *pieces, struct pool *pool, struct block *block);
/* Whether anything free in them is not yet so for everybody. */
bool pieces_are_pending(struct segment *segments);
/* Whether nothing of it is in use: all of it is free for everybody, or hollow. */
bool segment_is_free(const struct segment *segment);
/* Forgets all its pieces and the segment itself; the caller takes care of its block. */
void segment_drop(struct segment *segment);
void pieces_after_fork(void);

#endif
