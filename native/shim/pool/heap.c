#include "shim/pool/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u
#define STEPS 4 /* classes in each power of two */

static struct piece *used[BUCKETS];

static struct piece **bucket_of(CUdeviceptr base)
{
    uint64_t mixed = (base / HEAP_UNIT) * 0x9e3779b97f4a7c15ull;
    return &used[mixed >> 52];
}

static unsigned class_of(uint64_t size)
{
    uint64_t units = size / HEAP_UNIT;
    unsigned log = 63u - (unsigned)__builtin_clzll(units);
    unsigned step = log >= 2 ? (unsigned)(units >> (log - 2)) & (STEPS - 1) : 0;
    return log * STEPS + step < HEAP_CLASSES ? log * STEPS + step : HEAP_CLASSES - 1;
}

static void put_in(struct piece **list, struct piece *piece)
{
    piece->more = *list;
    piece->from = list;
    if (piece->more) {
        piece->more->from = &piece->more;
    }
    *list = piece;
}

static void take_out(struct piece *piece)
{
    *piece->from = piece->more;
    if (piece->more) {
        piece->more->from = piece->from;
    }
}

static void wait_for(struct piece *piece, struct stream_fence *fence, uint64_t number)
{
    if (piece->fence) {
        piece->fence->pieces--;
    }
    piece->fence = fence;
    piece->number = number;
    if (fence) {
        fence->pieces++;
    }
}

static bool is_ready(struct piece *piece)
{
    if (piece->fence && stream_fence_is_over(piece->fence, piece->number)) {
        wait_for(piece, NULL, 0);
    }
    return !piece->fence;
}

/* True if some of a free piece was damaged while it was in host memory: nothing more is allocated there. */
static bool is_damaged(const struct piece *piece)
{
    const struct extent *extent = piece->segment->extent;
    if (!atomic_load(&extents_damaged)) {
        return false;
    }
    LOCK_SCOPE(&extent_lock);
    CUdeviceptr at = extent->base;
    for (uint32_t i = 0; i < extent->chunk_count; at += extent->chunks[i++].bytes) {
        if (extent->chunks[i].state == CHUNK_DECOMMITTED && at < piece->base + piece->size &&
            piece->base < at + extent->chunks[i].bytes) {
            return true;
        }
    }
    return false;
}

struct piece *heap_find(struct heap *heap, uint64_t size, const struct stream_fence *fence,
                        bool any)
{
    struct piece *best = NULL;
    for (unsigned class = class_of(size); class < HEAP_CLASSES && !best; class++) {
        for (struct piece *piece = heap->free[class]; piece; piece = piece->more) {
            if (piece->size >= size && (!best || piece->size < best->size) &&
                (is_ready(piece) || piece->fence == fence || any) && !is_damaged(piece)) {
                best = piece;
            }
        }
    }
    return best;
}

static struct piece **list_of(struct heap *heap, const struct piece *piece)
{
    return piece->decommitted ? &heap->decommitted : &heap->free[class_of(piece->size)];
}

/* Cuts a free piece in two; the second, NULL: no memory. */
static struct piece *cut(struct heap *heap, struct piece *piece, uint64_t size)
{
    struct piece *rest = malloc(sizeof(*rest));
    if (!rest) {
        return NULL;
    }
    take_out(piece);
    *rest = *piece;
    rest->base += size;
    rest->size -= size;
    rest->previous = piece;
    rest->fence = NULL;
    wait_for(rest, piece->fence, piece->number);
    if (rest->next) {
        rest->next->previous = rest;
    }
    piece->next = rest;
    piece->size = size;
    put_in(list_of(heap, piece), piece);
    put_in(list_of(heap, rest), rest);
    return rest;
}

int heap_take(struct heap *heap, struct piece *piece, uint64_t size, uint64_t bytes)
{
    if (piece->size > size && !cut(heap, piece, size)) {
        return -ENOMEM;
    }
    take_out(piece);
    wait_for(piece, NULL, 0);
    piece->bytes = bytes;
    piece->sequence = extent_next_sequence();
    piece->used = true;
    put_in(bucket_of(piece->base), piece);
    return 0;
}

bool heap_is_free_for_all(struct piece *piece)
{
    return !piece->used && !piece->decommitted && is_ready(piece);
}

/* Whether the right one of two neighbours can become a part of the left one. */
static bool join_right(struct piece *piece)
{
    struct piece *next = piece->next;
    if (!next || next->used || next->decommitted != piece->decommitted) {
        return false;
    }
    is_ready(piece);
    is_ready(next);
    if (piece->fence != next->fence) {
        return false;
    }
    if (next->number > piece->number) {
        piece->number = next->number;
    }
    take_out(next);
    wait_for(next, NULL, 0);
    piece->size += next->size;
    piece->next = next->next;
    if (piece->next) {
        piece->next->previous = piece;
    }
    free(next);
    return true;
}

/* Joins what comes after a free piece to it, as far as that can be. */
static void absorb(struct heap *heap, struct piece *piece)
{
    bool grew = false;
    while (join_right(piece)) {
        grew = true;
    }
    if (grew) {
        take_out(piece);
        put_in(list_of(heap, piece), piece);
    }
}

int heap_decommit(struct heap *heap, struct piece *piece, CUdeviceptr base, uint64_t bytes)
{
    uint64_t before = base - piece->base;
    struct piece *part = before ? cut(heap, piece, before) : piece;
    if (!part || (part->size > bytes && !cut(heap, part, bytes))) {
        return -ENOMEM; /* what was cut is joined later */
    }
    take_out(part);
    part->decommitted = true;
    put_in(list_of(heap, part), part);
    return 0; /* neighbours are joined later, so that a walk along them can go on */
}

void heap_free(struct heap *heap, struct piece *piece, struct stream_fence *fence)
{
    take_out(piece);
    piece->used = false;
    piece->bytes = 0;
    wait_for(piece, fence, fence ? stream_fence_free(fence) : 0);
    put_in(&heap->free[class_of(piece->size)], piece);
    absorb(heap, piece);
    if (piece->previous && !piece->previous->used) {
        absorb(heap, piece->previous);
    }
}

struct piece *heap_piece_at(CUdeviceptr base)
{
    struct piece *piece = *bucket_of(base);
    while (piece && piece->base != base) {
        piece = piece->more;
    }
    return piece;
}

struct piece *heap_piece_of(const struct segment *segment, CUdeviceptr address)
{
    struct piece *piece = segment->first;
    while (piece && address >= piece->base + piece->size) {
        piece = piece->next;
    }
    return piece && piece->used ? piece : NULL;
}

void heap_join(struct heap *heap, struct segment *segments)
{
    for (struct segment *segment = segments; segment; segment = segment->next) {
        for (struct piece *piece = segment->first; piece; piece = piece->next) {
            if (!piece->used) {
                is_ready(piece);
                absorb(heap, piece);
            }
        }
    }
}

struct segment *heap_add_segment(struct heap *heap, struct pool *pool, struct extent *extent)
{
    struct segment *segment = calloc(1, sizeof(*segment));
    struct piece *piece = calloc(1, sizeof(*piece));
    if (!segment || !piece) {
        free(segment);
        free(piece);
        return NULL;
    }
    segment->pool = pool;
    segment->extent = extent;
    segment->first = piece;
    piece->segment = segment;
    piece->base = extent->base;
    piece->size = segment->bytes = extent->span;
    put_in(&heap->free[class_of(piece->size)], piece);
    return segment;
}

bool heap_is_pending(struct segment *segments)
{
    for (struct segment *segment = segments; segment; segment = segment->next) {
        for (struct piece *piece = segment->first; piece; piece = piece->next) {
            if (!piece->used && !is_ready(piece)) {
                return true;
            }
        }
    }
    return false;
}

bool heap_segment_is_free(const struct segment *segment)
{
    for (struct piece *piece = segment->first; piece; piece = piece->next) {
        if (piece->used || !is_ready(piece)) {
            return false;
        }
    }
    return true;
}

void heap_drop_pieces(struct segment *segment)
{
    for (struct piece *piece = segment->first, *next; piece; piece = next) {
        next = piece->next;
        take_out(piece);
        wait_for(piece, NULL, 0);
        free(piece);
    }
    segment->first = NULL;
}

void heap_drop_segment(struct segment *segment)
{
    heap_drop_pieces(segment);
    free(segment);
}

void heap_after_fork(void) { memset(used, 0, sizeof(used)); }
