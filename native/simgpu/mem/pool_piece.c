#include "simgpu/mem/pool_piece.h"

#include <stdlib.h>

#include "simgpu/stream/stream.h"

void sg_piece_release_stream(struct sg_piece *piece)
{
    if (piece->stream) {
        sg_stream_unref(piece->stream);
        piece->stream = NULL;
    }
}

int sg_piece_is_ready(struct sg_piece *piece)
{
    if (piece->stream && sg_stream_done(piece->stream, piece->number)) {
        sg_piece_release_stream(piece);
    }
    return !piece->stream;
}

static void absorb_next(struct sg_piece *piece)
{
    struct sg_piece *next = piece->next;
    if (next->stream && next->number > piece->number) {
        piece->number = next->number;
    }
    sg_piece_release_stream(next);
    piece->size += next->size;
    piece->next = next->next;
    if (piece->next) {
        piece->next->previous = piece;
    }
    free(next);
}

/* Joins a free piece with the free neighbours behind it that wait for the same stream. */
static void join(struct sg_piece *piece)
{
    sg_piece_is_ready(piece);
    while (piece->next && !piece->next->used) {
        sg_piece_is_ready(piece->next);
        if (piece->next->stream != piece->stream) {
            return;
        }
        absorb_next(piece);
    }
}

void sg_pieces_join(CUmemoryPool pool)
{
    for (struct sg_segment *segment = pool->segments; segment; segment = segment->next) {
        for (struct sg_piece *piece = segment->first; piece; piece = piece->next) {
            if (!piece->used) {
                join(piece);
            }
        }
    }
}

struct sg_piece *sg_piece_best_fit(CUmemoryPool pool, uint64_t size, CUstream stream, int waits)
{
    struct sg_piece *best = NULL;
    for (struct sg_segment *segment = pool->segments; segment; segment = segment->next) {
        for (struct sg_piece *piece = segment->first; piece; piece = piece->next) {
            if (piece->used || piece->size < size || (best && best->size <= piece->size)) {
                continue;
            }
            if (!piece->stream || piece->stream == stream || waits) {
                best = piece;
            }
        }
    }
    return best;
}

int sg_piece_cut(struct sg_piece *piece, uint64_t size)
{
    struct sg_piece *rest;
    if (piece->size == size) {
        return 0;
    }
    rest = malloc(sizeof *rest);
    if (!rest) {
        return -1;
    }
    *rest = *piece;
    if (rest->stream) {
        sg_stream_ref(rest->stream);
    }
    rest->base += size;
    rest->size -= size;
    rest->previous = piece;
    piece->size = size;
    piece->next = rest;
    if (rest->next) {
        rest->next->previous = rest;
    }
    return 0;
}
