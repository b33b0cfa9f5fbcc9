/* Pieces of a pool's segments: cut, used, freed in the order of streams, joined, decommitted. */
#include "shim/pool/heap.h"

#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

#include "check.h"

#define MIB (1ull << 20)
#define UNIT ((uint64_t)HEAP_UNIT)
#define SPAN (8 * MIB)
#define LIVE_MAX 64

/* The real one belongs to stream_fence.c, which asks the driver how far streams are. */
uint64_t stream_fence_free(struct stream_fence *fence) { return ++fence->freed; }

static struct heap heap;
static struct extent extent = {.base = 1ull << 40, .span = SPAN};

static struct segment *one_segment(void)
{
    memset(&heap, 0, sizeof(heap));
    return heap_add_segment(&heap, NULL, &extent);
}

static struct piece *take(uint64_t size, struct stream_fence *fence)
{
    struct piece *piece = heap_find(&heap, size, fence, false);
    return piece && heap_take(&heap, piece, size, size) == 0 ? piece : NULL;
}

/* Whether the pieces of a segment lie one behind the other and are all of it. */
static bool is_whole(const struct segment *segment)
{
    CUdeviceptr at = extent.base;
    const struct piece *before = NULL;
    for (const struct piece *piece = segment->first; piece; piece = piece->next) {
        if (piece->base != at || piece->previous != before || !piece->size) {
            return false;
        }
        at += piece->size;
        before = piece;
    }
    return at == extent.base + SPAN;
}

static void test_nothing_is_made_in_damaged_memory(void)
{
    struct extent *of_chunks = calloc(1, sizeof(*of_chunks) + 4 * sizeof(of_chunks->chunks[0]));
    memset(&heap, 0, sizeof(heap));
    of_chunks->base = extent.base;
    of_chunks->span = SPAN;
    of_chunks->chunk_count = 4;
    for (unsigned i = 0; i < 4; i++) {
        of_chunks->chunks[i].bytes = 2 * MIB;
        of_chunks->chunks[i].state = i == 2 ? CHUNK_DECOMMITTED : CHUNK_RESIDENT;
    }
    struct segment *segment = heap_add_segment(&heap, NULL, of_chunks);
    struct piece *before = take(4 * MIB, NULL);
    struct piece *lost = take(2 * MIB, NULL);
    CHECK(before && lost && lost->base == extent.base + 4 * MIB);
    heap_free(&heap, lost, NULL);
    atomic_store(&extents_damaged, true); /* as swap/damage.c leaves it */
    CHECK(!take(HEAP_UNIT, NULL));
    heap_free(&heap, before, NULL);
    CHECK(!take(HEAP_UNIT, NULL)); /* it is joined with what is lost */
    of_chunks->chunks[2].state = CHUNK_RESIDENT;
    CHECK(take(HEAP_UNIT, NULL));
    atomic_store(&extents_damaged, false);
    heap_drop_segment(segment);
    free(of_chunks);
}

static void test_pieces_are_found_by_address(void)
{
    struct segment *segment = one_segment();
    struct piece *first = take(MIB, NULL);
    struct piece *second = take(HEAP_UNIT, NULL);
    CHECK(first && second && first->base + MIB == second->base);
    CHECK(heap_piece_at(first->base) == first);
    CHECK(heap_piece_at(first->base + 1) == NULL);
    CHECK(heap_piece_of(segment, second->base + 1) == second);
    CHECK(heap_piece_of(segment, second->base + HEAP_UNIT) == NULL);
    CHECK(first->sequence != second->sequence);
    CHECK(take(SPAN, NULL) == NULL);
    heap_drop_segment(segment);
    CHECK(heap_find(&heap, HEAP_UNIT, NULL, true) == NULL);
}

static void test_the_smallest_that_fits_is_taken(void)
{
    struct segment *segment = one_segment();
    struct piece *small = take(2 * UNIT, NULL);
    struct piece *between = take(HEAP_UNIT, NULL);
    CHECK(small && between);
    CUdeviceptr base = small->base;
    heap_free(&heap, small, NULL);
    struct piece *again = take(2 * UNIT, NULL);
    CHECK(again && again->base == base);
    heap_drop_segment(segment);
}

static void test_a_free_piece_waits_for_its_stream(void)
{
    struct stream_fence one = {.freed = 0};
    struct stream_fence other = {.freed = 0};
    struct segment *segment = one_segment();
    struct piece *piece = take(SPAN, NULL);
    CHECK(piece != NULL);
    heap_free(&heap, piece, &one);
    CHECK(one.pieces == 1);
    CHECK(heap_find(&heap, MIB, &other, false) == NULL);
    CHECK(heap_find(&heap, MIB, &one, false) != NULL);
    CHECK(heap_find(&heap, MIB, &other, true) != NULL);
    CHECK(heap_is_pending(segment));
    CHECK(!heap_segment_is_free(segment));
    one.over = one.freed;
    CHECK(heap_find(&heap, MIB, &other, false) != NULL);
    CHECK(heap_segment_is_free(segment) && !heap_is_pending(segment));
    CHECK(one.pieces == 0);
    heap_drop_segment(segment);
}

static void test_nothing_is_found_in_a_segment_that_is_about_to_go(void)
{
    struct segment *segment = one_segment();
    heap_drop_pieces(segment);
    CHECK(heap_find(&heap, HEAP_UNIT, NULL, true) == NULL);
    CHECK(heap_piece_of(segment, extent.base) == NULL);
    heap_drop_segment(segment);
}

static void test_what_is_decommitted_is_not_used_again(void)
{
    struct segment *segment = one_segment();
    struct piece *used = take(MIB, NULL);
    struct piece *free_one = heap_find(&heap, MIB, NULL, false);
    CHECK(used && free_one);
    CHECK(heap_decommit(&heap, free_one, extent.base + 2 * MIB, 4 * MIB) == 0);
    CHECK(is_whole(segment));
    CHECK(heap_find(&heap, 3 * MIB, NULL, true) == NULL);
    CHECK(heap_find(&heap, 2 * MIB, NULL, true) != NULL);
    heap_free(&heap, used, NULL);
    heap_join(&heap, segment);
    CHECK(is_whole(segment));
    CHECK(heap_segment_is_free(segment));
    CHECK(heap_find(&heap, 3 * MIB, NULL, true) == NULL);
    heap_drop_segment(segment);
}

/* Whatever is taken and freed, no two pieces overlap, nothing is lost, and in the end all is one piece. */
static void test_any_order(void)
{
    struct stream_fence fence = {.freed = 0};
    struct segment *segment = one_segment();
    struct piece *live[LIVE_MAX] = {NULL};
    uint64_t used = 0;
    for (unsigned round = 0; round < 20000; round++) {
        struct piece **slot = &live[check_random(LIVE_MAX)];
        if (*slot) {
            used -= (*slot)->size;
            heap_free(&heap, *slot, check_random(2) ? &fence : NULL);
            *slot = NULL;
        } else {
            *slot = take((1 + check_random(400)) * UNIT, &fence);
            used += *slot ? (*slot)->size : 0;
        }
        if (round % 16 == 0) {
            fence.over = fence.freed;
            heap_join(&heap, segment);
        }
        uint64_t found = 0;
        for (const struct piece *piece = segment->first; piece; piece = piece->next) {
            found += piece->used ? piece->size : 0;
        }
        if (!is_whole(segment) || found != used) {
            CHECK(!"a piece was lost, or overlaps another");
            return;
        }
    }
    for (unsigned i = 0; i < LIVE_MAX; i++) {
        if (live[i]) {
            heap_free(&heap, live[i], NULL);
        }
    }
    fence.over = fence.freed;
    heap_join(&heap, segment);
    CHECK(segment->first->size == SPAN && !segment->first->next);
    CHECK(fence.pieces == 0);
    heap_drop_segment(segment);
}

int main(void)
{
    test_nothing_is_made_in_damaged_memory();
    test_pieces_are_found_by_address();
    test_the_smallest_that_fits_is_taken();
    test_a_free_piece_waits_for_its_stream();
    test_nothing_is_found_in_a_segment_that_is_about_to_go();
    test_what_is_decommitted_is_not_used_again();
    test_any_order();
    return check_end();
}
