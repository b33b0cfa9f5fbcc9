#include "shim/pool/decommit.h"

#include "shim/mem/accounting.h"
#include "shim/swap/host_arena.h"

/* Of one segment, up to `most` bytes. */
static uint64_t make(struct heap *heap, struct segment *segment, uint64_t most)
{
    struct extent *extent = segment->extent;
    uint64_t step = extent->chunk_count ? extent->chunks[0].bytes : 0; /* managed memory has none */
    uint64_t made = 0;
    for (struct piece *piece = segment->first; piece && step; piece = piece->next) {
        if (!heap_is_free_for_all(piece)) {
            continue;
        }
        uint64_t end = piece->base + piece->size - extent->base;
        uint32_t first = (uint32_t)((piece->base - extent->base + step - 1) / step);
        uint32_t beyond = first;
        uint64_t bytes = 0;
        while (beyond < extent->chunk_count &&
               beyond * step + extent->chunks[beyond].bytes <= end &&
               made + bytes + extent->chunks[beyond].bytes <= most) {
            bytes += extent->chunks[beyond++].bytes;
        }
        if (!bytes || heap_decommit(heap, piece, extent_address(extent, first), bytes) != 0) {
            continue;
        }
        made += bytes;
        while (first < beyond) {
            extent->chunks[first++].decommit_wanted = true;
        }
    }
    return made;
}

uint64_t decommit_begin(struct heap *heap, struct segment *segments, uint64_t most,
                        struct decommits *made)
{
    uint64_t all = 0;
    LOCK_SCOPE(&extent_lock);
    for (struct segment *segment = segments; segment && made->count < DECOMMITS_MAX;
         segment = segment->next) {
        if (heap_segment_is_free(segment)) {
            continue; /* it goes as a whole, or is kept as a whole */
        }
        uint64_t bytes = make(heap, segment, most - all);
        if (bytes) {
            all += bytes;
            segment->bytes -= bytes;
            extent_hold_moves(segment->extent); /* so that it neither begins to move nor goes */
            made->extents[made->count++] = segment->extent;
        }
    }
    return all;
}

/* Nothing of the extent is being moved, and nothing begins to be. */
static void release(struct extent *extent)
{
    uint64_t bytes = 0;
    uint64_t resident = 0;
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        struct chunk *chunk = &extent->chunks[i];
        bool wanted = chunk->decommit_wanted;
        chunk->decommit_wanted = false;
        if (!wanted || chunk->state == CHUNK_DECOMMITTED) {
            continue; /* it was damaged (swap/damage.h): it is given back already */
        }
        if (chunk_has_memory(chunk)) {
            extent_unmap_chunk(extent, i);
            resident += chunk->bytes;
        }
        if (chunk->host) {
            host_arena_give_back(chunk->host, chunk->bytes);
            chunk->host = NULL;
        }
        chunk->content = CHUNK_DATA;
        chunk_transition(chunk, CHUNK_DECOMMITTED);
        bytes += chunk->bytes;
    }
    extent->decommitted_bytes += bytes;
    extent->device->resident_bytes -= resident;
    if (bytes) {
        accounting_release(extent->device, bytes, resident, extent_charge_flags(extent));
    }
}

void decommit_finish(struct decommits *made)
{
    for (uint32_t i = 0; i < made->count; i++) {
        struct extent *extent = made->extents[i];
        extent_await_moves(extent);
        LOCK_SCOPE(&extent_lock);
        release(extent);
        extent_release_moves(extent);
    }
    made->count = 0;
}
