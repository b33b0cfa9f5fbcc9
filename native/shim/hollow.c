#include "shim/hollow.h"

#include "shim/arena.h"
#include "shim/charge.h"

/* Of one segment, up to `most` bytes. */
static uint64_t make(struct pieces *pieces, struct segment *segment, uint64_t most)
{
    struct block *block = segment->block;
    uint64_t step = block->chunk_count ? block->chunks[0].bytes : 0; /* managed memory has none */
    uint64_t made = 0;
    for (struct piece *piece = segment->first; piece && step; piece = piece->next) {
        if (!piece_is_for_all(piece)) {
            continue;
        }
        uint64_t end = piece->base + piece->size - block->base;
        uint32_t first = (uint32_t)((piece->base - block->base + step - 1) / step);
        uint32_t beyond = first;
        uint64_t bytes = 0;
        while (beyond < block->chunk_count && beyond * step + block->chunks[beyond].bytes <= end &&
               made + bytes + block->chunks[beyond].bytes <= most) {
            bytes += block->chunks[beyond++].bytes;
        }
        if (!bytes || piece_hollow(pieces, piece, block_at(block, first), bytes) != 0) {
            continue;
        }
        made += bytes;
        while (first < beyond) {
            block->chunks[first++].hollow = true;
        }
    }
    return made;
}

uint64_t hollow_make(struct pieces *pieces, struct segment *segments, uint64_t most,
                     struct hollows *made)
{
    uint64_t all = 0;
    LOCK_SCOPE(&blocks_lock);
    for (struct segment *segment = segments; segment && made->count < HOLLOWS_MAX;
         segment = segment->next) {
        if (segment_is_free(segment)) {
            continue; /* it goes as a whole, or is kept as a whole */
        }
        uint64_t bytes = make(pieces, segment, most - all);
        if (bytes) {
            all += bytes;
            segment->bytes -= bytes;
            block_hold(segment->block); /* so that it neither begins to move nor goes */
            made->blocks[made->count++] = segment->block;
        }
    }
    return all;
}

/* Nothing of the block is being moved, and nothing begins to be. */
static void release(struct block *block)
{
    uint64_t bytes = 0;
    uint64_t resident = 0;
    for (uint32_t i = 0; i < block->chunk_count; i++) {
        struct chunk *chunk = &block->chunks[i];
        if (!chunk->hollow || chunk->released) {
            continue;
        }
        if (chunk->present) {
            block_unback(block, i);
            resident += chunk->bytes;
        }
        if (chunk->host) {
            arena_give_back(chunk->host, chunk->bytes);
            chunk->host = NULL;
        }
        chunk->zeros = false;
        chunk->released = true;
        bytes += chunk->bytes;
    }
    block->hollow_bytes += bytes;
    block->device->resident_bytes -= resident;
    if (bytes) {
        charge_drop(block->device, bytes, resident, block_charge(block));
    }
}

void hollow_release(struct hollows *made)
{
    for (uint32_t i = 0; i < made->count; i++) {
        struct block *block = made->blocks[i];
        LOCK_SCOPE(&blocks_lock);
        block_await(block);
        release(block);
        block_let_go(block);
    }
    made->count = 0;
}
