/* The pieces that a pool's segments are cut into. The pool is locked. */
#ifndef SIMGPU_POOL_PIECE_H
#define SIMGPU_POOL_PIECE_H

#include "simgpu/mem/pool.h"

/* Drops the reference to the stream: the piece is free now. */
void sg_piece_release_stream(struct sg_piece *piece);
/* Returns whether the work is done that a free piece waits for. */
int sg_piece_is_ready(struct sg_piece *piece);
/* Joins a free piece with the free neighbours behind it that wait for the same stream. */
void sg_pieces_join(CUmemoryPool pool);
/* Returns the smallest free piece that is large enough, or NULL. With `waits` it may wait for another
 * stream. */
struct sg_piece *sg_piece_best_fit(CUmemoryPool pool, uint64_t size, CUstream stream, int waits);
/* Cuts a piece to `size` bytes; the rest becomes a new piece. Returns -1 if there is no memory. */
int sg_piece_cut(struct sg_piece *piece, uint64_t size);

#endif
