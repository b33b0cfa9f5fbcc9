#include "shim/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u
#define STEPS 4 /* classes in each power of two */

static struct piece *used[BUCKETS];

static struct piece **bucket_of(CUdeviceptr base)
{
    uint64_t mixed = (base / PIECE_UNIT) * 0x9e3779b97f4a7c15ull;
    return &used[mixed >> 52];
}

static unsigned class_of(uint64_t size)
{
    uint64_t units = size / PIECE_UNIT;
    unsigned log = 63u - (unsigned)__builtin_clzll(units);
    unsigned step = log >= 2 ? (unsigned)(units >> (log - 2)) & (STEPS - 1) : 0;
    return log * STEPS + step < PIECE_CLASSES ? log * STEPS + step : PIECE_CLASSES - 1;
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

static void wait_for(struct piece *piece, struct line *line, uint64_t number)
{
    if (piece->line) {
        piece->line->pieces--;
    }
    piece->line = line;
    piece->number = number;
    if (line) {
        line->pieces++;
    }
}

static bool is_ready(struct piece *piece)
{
    if (piece->line && line_is_over(piece->line, piece->number)) {
        wait_for(piece, NULL, 0);
    }
    return !piece->line;
}

struct piece *piece_find(struct pieces *pieces, uint64_t size, const struct line *line, bool any)
{
    struct piece *best = NULL;
    for (unsigned class = class_of(size); class < PIECE_CLASSES && !best; class++) {
        for (struct piece *piece = pieces->free[class]; piece; piece = piece->more) {
            if (piece->size >= size && (!best || piece->size < best->size) &&
                (is_ready(piece) || piece->line == line || any)) {
                best = piece;
            }
        }
    }
    return best;
}

static struct piece **list_of(struct pieces *pieces, const struct piece *piece)
{
    return piece->hollow ? &pieces->hollow : &pieces->free[class_of(piece->size)];
}

/* Cuts a free piece in two; the second, NULL: no memory. */
static struct piece *cut(struct pieces *pieces, struct piece *piece, uint64_t size)
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
    rest->line = NULL;
    wait_for(rest, piece->line, piece->number);
    if (rest->next) {
        rest->next->previous = rest;
    }
    piece->next = rest;
    piece->size = size;
    put_in(list_of(pieces, piece), piece);
    put_in(list_of(pieces, rest), rest);
    return rest;
}

int piece_take(struct pieces *pieces, struct piece *piece, uint64_t size, uint64_t bytes)
{
    if (piece->size > size && !cut(pieces, piece, size)) {
        return -ENOMEM;
    }
    take_out(piece);
    wait_for(piece, NULL, 0);
    piece->bytes = bytes;
    piece->born = blocks_number();
    piece->used = true;
    put_in(bucket_of(piece->base), piece);
    return 0;
}

bool piece_is_for_all(struct piece *piece)
{
    return !piece->used && !piece->hollow && is_ready(piece);
}

/* Whether the right one of two neighbours can become a part of the left one. */
static bool join_right(struct piece *piece)
{
    struct piece *next = piece->next;
    if (!next || next->used || next->hollow != piece->hollow) {
        return false;
    }
    is_ready(piece);
    is_ready(next);
    if (piece->line != next->line) {
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
static void absorb(struct pieces *pieces, struct piece *piece)
{
    bool grew = false;
    while (join_right(piece)) {
        grew = true;
    }
    if (grew) {
        take_out(piece);
        put_in(list_of(pieces, piece), piece);
    }
}

int piece_hollow(struct pieces *pieces, struct piece *piece, CUdeviceptr base, uint64_t bytes)
{
    uint64_t before = base - piece->base;
    struct piece *part = before ? cut(pieces, piece, before) : piece;
    if (!part || (part->size > bytes && !cut(pieces, part, bytes))) {
        return -ENOMEM; /* what was cut is joined later */
    }
    take_out(part);
    part->hollow = true;
    put_in(list_of(pieces, part), part);
    return 0; /* neighbours are joined later, so whoever walks through them can go on */
}

void piece_give_back(struct pieces *pieces, struct piece *piece, struct line *line)
{
    take_out(piece);
    piece->used = false;
    piece->bytes = 0;
    wait_for(piece, line, line ? line_free(line) : 0);
    put_in(&pieces->free[class_of(piece->size)], piece);
    absorb(pieces, piece);
    if (piece->previous && !piece->previous->used) {
        absorb(pieces, piece->previous);
    }
}

struct piece *piece_at(CUdeviceptr base)
{
    struct piece *piece = *bucket_of(base);
    while (piece && piece->base != base) {
        piece = piece->more;
    }
    return piece;
}

struct piece *piece_of(const struct segment *segment, CUdeviceptr address)
{
    struct piece *piece = segment->first;
    while (piece && address >= piece->base + piece->size) {
        piece = piece->next;
    }
    return piece && piece->used ? piece : NULL;
}

void pieces_join(struct pieces *pieces, struct segment *segments)
{
    for (struct segment *segment = segments; segment; segment = segment->next) {
        for (struct piece *piece = segment->first; piece; piece = piece->next) {
            if (!piece->used) {
                is_ready(piece);
                absorb(pieces, piece);
            }
        }
    }
}

struct segment *segment_make(struct pieces *pieces, struct pool *pool, struct block *block)
{
    struct segment *segment = calloc(1, sizeof(*segment));
    struct piece *piece = calloc(1, sizeof(*piece));
    if (!segment || !piece) {
        free(segment);
        free(piece);
        return NULL;
    }
    segment->pool = pool;
    segment->block = block;
    segment->first = piece;
    piece->segment = segment;
    piece->base = block->base;
    piece->size = segment->bytes = block->span;
    put_in(&pieces->free[class_of(piece->size)], piece);
    return segment;
}

bool pieces_are_pending(struct segment *segments)
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

bool segment_is_free(const struct segment *segment)
{
    for (struct piece *piece = segment->first; piece; piece = piece->next) {
        if (piece->used || !is_ready(piece)) {
            return false;
        }
    }
    return true;
}

void segment_drop(struct segment *segment)
{
    for (struct piece *piece = segment->first, *next; piece; piece = next) {
        next = piece->next;
        take_out(piece);
        wait_for(piece, NULL, 0);
        free(piece);
    }
    free(segment);
}

void pieces_after_fork(void) { memset(used, 0, sizeof(used)); }
