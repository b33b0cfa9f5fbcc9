/* The pieces that a pool's segments are cut into. The pool is locked. */
#ifndef SIMGPU_POOL_PIECE_H
#define SIMGPU_POOL_PIECE_H

#include "simgpu/mem/pool.h"

/* It has not to wait for its stream any more. */
void sg_piece_release_stream(struct sg_piece *piece);
/* Whether a free piece is free for everybody: its stream got there. */
int sg_piece_is_ready(struct sg_piece *piece);
/* Free neighbours become one where the same has to be waited for. */
void sg_pieces_join(CUmemoryPool pool);
/* The smallest that is large enough; `waits`: one that another stream has yet to get to. NULL: none is. */
struct sg_piece *sg_piece_best_fit(CUmemoryPool pool, uint64_t size, CUstream stream, int waits);
/* Keeps so many bytes; the rest is a piece of its own. -1: no memory. */
int sg_piece_cut(struct sg_piece *piece, uint64_t size);

#endif
