/* Which chunk is evicted, scanned and restored next. */
#include "shim/swap/victim.h"

#include <stdlib.h>

#include "fake_driver.h"
#include "shim/mem/extent_table.h"

#include "check.h"

#define MIB (1ull << 20)

static struct device device = {.lease_count = 3};
static struct device other_device = {.lease_count = 3};
static struct extent *extents[64];
static unsigned extent_total;

/* An extent with resident chunks of these sizes, scanned in this turn. */
static struct extent *with(unsigned count, const uint64_t *bytes)
{
    struct extent *made = calloc(1, sizeof(*made) + count * sizeof(made->chunks[0]));
    if (!made) {
        abort();
    }
    made->device = &device;
    made->sequence = extent_total + 1;
    made->chunk_count = count;
    for (unsigned i = 0; i < count; i++) {
        made->chunks[i].bytes = bytes[i] * MIB;
        made->chunks[i].state = CHUNK_RESIDENT;
        made->chunks[i].scanned_turn = device.lease_count;
    }
    CHECK(extent_table_insert(made) == 0);
    extents[extent_total++] = made;
    return made;
}
#define WITH(...) \
    with(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]){__VA_ARGS__})

static void reset(void)
{
    while (extent_total) {
        extent_table_remove(extents[--extent_total]);
        free(extents[extent_total]);
    }
    CHECK(extent_table_count() == 0);
}

static bool is(struct victim victim, const struct extent *extent, uint32_t index)
{
    return victim.extent == extent && (!extent || victim.index == index);
}

/* Without what was chosen ahead: chunks are changed here in ways that nothing tells of. */
static struct victim choose_of(uint64_t bytes, bool can_scan)
{
    struct victims none = {.count = 0};
    return victim_choose(&none, &device, bytes, can_scan);
}

static struct victim choose(uint64_t mib) { return choose_of(mib * MIB, true); }

static struct victim choose_to_restore(uint64_t room, bool *missing)
{
    struct victims none = {.count = 0};
    return victim_choose_to_restore(&none, &device, room, missing);
}

static void test_the_largest_that_fits_then_the_youngest(void)
{
    struct extent *one = WITH(8, 2, 32);
    CHECK(is(choose(16), one, 0));
    struct extent *two = WITH(8, 4);
    CHECK(is(choose(16), two, 0)); /* as large, and made later */
    CHECK(is(choose(4), two, 1));
    CHECK(is(choose(64), one, 2));
    CHECK(is(choose(1), one, 1)); /* all are larger: the smallest */
    reset();
}

static void test_zeros_go_first(void)
{
    struct extent *one = WITH(8, 2, 32);
    one->chunks[1].content = CHUNK_ZERO;
    CHECK(is(choose(16), one, 1));
    one->chunks[1].scanned_turn = device.lease_count - 1; /* an earlier lease: not known any more */
    CHECK(is(choose_of(16 * MIB, false), one, 0));
    CHECK(one->chunks[1].content == CHUNK_DATA);
    reset();
}

static void test_clean_ones_go_before_those_that_are_copied(void)
{
    struct extent *one = WITH(8, 4, 2, 32);
    one->chunks[1].content = one->chunks[3].content = CHUNK_CLEAN;
    one->chunks[1].host = one->chunks[3].host = one;
    CHECK(is(choose(16), one, 1));
    CHECK(is(choose(2), one, 2)); /* more would come back than has to leave */
    one->chunks[1].host = NULL;   /* without its copy it is data */
    CHECK(is(choose(16), one, 0));
    one->chunks[2].content = CHUNK_ZERO;
    CHECK(is(choose(64), one, 2));
    reset();
}

static void test_what_cannot_move_stays(void)
{
    struct extent *pinned = WITH(8);
    struct extent *retiring = WITH(8);
    struct extent *held = WITH(8);
    struct extent *theirs = WITH(8);
    struct extent *mixed = WITH(8, 8, 8, 8);
    pinned->pins = 1;
    retiring->retiring = true;
    held->move_locks = 1;
    theirs->device = &other_device;
    mixed->chunks[0].state = CHUNK_EVICTED;
    mixed->chunks[1].state = CHUNK_MOVING;
    mixed->chunks[1].busy = true;
    mixed->chunks[2].busy = true; /* being scanned */
    CHECK(is(choose(16), mixed, 3));
    CHECK(choose(16).unscanned); /* the held one may be free for it soon */
    mixed->chunks[3].state = CHUNK_DECOMMITTED;
    CHECK(is(choose(16), NULL, 0));
    reset();
}

static void test_chunks_that_were_not_scanned_wait(void)
{
    struct victim found[4];
    struct extent *one = WITH(8, 16);
    one->chunks[0].scanned_turn = 0;
    CHECK(victim_choose_to_scan(&device, found, 4) == 1 && is(found[0], one, 0));
    CHECK(is(choose(16), one, 1) && choose(16).unscanned);
    CHECK(is(choose(4), NULL, 0)); /* too large, while a smaller one may be found to hold zeros */
    CHECK(is(choose_of(8 * MIB, false), one, 0));
    reset();
}

static void test_the_largest_that_there_is_room_for_comes_back(void)
{
    bool missing = false;
    struct extent *one = WITH(8, 2, 32);
    CHECK(is(choose_to_restore(64 * MIB, &missing), NULL, 0) && !missing);
    for (unsigned i = 0; i < 3; i++) {
        one->chunks[i].state = CHUNK_EVICTED;
    }
    CHECK(is(choose_to_restore(64 * MIB, &missing), one, 2) && missing);
    CHECK(is(choose_to_restore(31 * MIB, &missing), one, 0));
    CHECK(is(choose_to_restore(2 * MIB, &missing), one, 1));
    CHECK(is(choose_to_restore(1 * MIB, &missing), NULL, 0) && missing);
    one->chunks[2].decommit_wanted = true;
    one->chunks[1].state = CHUNK_UNTOUCHED;
    CHECK(is(choose_to_restore(64 * MIB, &missing), one, 0));
    one->move_locks = 1;
    CHECK(is(choose_to_restore(64 * MIB, &missing), NULL, 0) && missing);
    reset();
}

/* Whether one of two resident chunks goes first, by the rule as it is told. */
static bool goes_first(const struct chunk *one, uint64_t sequence, const struct chunk *other,
                       uint64_t other_sequence, uint64_t want)
{
    bool fits = one->bytes <= want;
    if ((one->content == CHUNK_ZERO) != (other->content == CHUNK_ZERO)) {
        return one->content == CHUNK_ZERO;
    }
    if (fits != (other->bytes <= want)) {
        return fits;
    }
    if ((one->content == CHUNK_CLEAN) != (other->content == CHUNK_CLEAN) &&
        one->content != CHUNK_ZERO) {
        return one->content == CHUNK_CLEAN;
    }
    if (one->bytes == other->bytes) {
        return sequence > other_sequence;
    }
    return (one->bytes > other->bytes) == fits;
}

/* The first of all resident chunks; NULL: there is none. */
static const struct chunk *first_of_all(uint64_t want)
{
    const struct chunk *best = NULL;
    uint64_t best_sequence = 0;
    for (unsigned e = 0; e < extent_total; e++) {
        for (unsigned i = 0; i < extents[e]->chunk_count; i++) {
            const struct chunk *chunk = &extents[e]->chunks[i];
            if (chunk->state == CHUNK_RESIDENT &&
                (!best || goes_first(chunk, extents[e]->sequence, best, best_sequence, want))) {
                best = chunk;
                best_sequence = extents[e]->sequence;
            }
        }
    }
    return best;
}

static void test_any_extents(void)
{
    for (unsigned round = 0; round < 500; round++) {
        uint64_t want = check_random(64) * MIB;
        for (unsigned e = 0; e < 8; e++) {
            struct extent *made =
                WITH(1 + check_random(8), 1 + check_random(40), 1 + check_random(8));
            for (unsigned i = 0; i < made->chunk_count; i++) {
                unsigned content = check_random(10);
                made->chunks[i].content = content == 0  ? CHUNK_ZERO
                                          : content < 4 ? CHUNK_CLEAN
                                                        : CHUNK_DATA;
                made->chunks[i].host = content && content < 4 ? made : NULL;
                made->chunks[i].state = check_random(3) ? CHUNK_RESIDENT : CHUNK_EVICTED;
            }
        }
        const struct chunk *best = first_of_all(want);
        struct victim victim = choose_of(want, true);
        CHECK(victim.extent ? &victim.extent->chunks[victim.index] == best : !best);
        reset();
    }
}

/* Evicts all chunks, one after the other, and restores them: as chosen ahead, and as chosen one by one. */
static void test_what_is_chosen_ahead_is_what_would_be_chosen_then(void)
{
    for (unsigned round = 0; round < 50; round++) {
        struct victims ahead = {.count = 0};
        bool missing;
        for (unsigned e = 0; e < 30; e++) {
            struct extent *made = WITH(1 + check_random(8), 1 + check_random(40), 4, 4, 4, 4, 4, 4);
            made->chunks[0].content = check_random(4) ? CHUNK_DATA : CHUNK_ZERO;
        }
        for (uint64_t want = 4000 * MIB;;) {
            struct victim victim = victim_choose(&ahead, &device, want, true);
            struct victim one = choose_of(want, true);
            CHECK(is(one, victim.extent, victim.index));
            if (!victim.extent) {
                break;
            }
            struct chunk *chunk = &victim.extent->chunks[victim.index];
            chunk->state = CHUNK_EVICTED;
            want -= chunk->bytes < want ? chunk->bytes : want;
        }
        for (uint64_t room = 4000 * MIB;;) {
            struct victim victim = victim_choose_to_restore(&ahead, &device, room, &missing);
            CHECK(missing == (victim.extent != NULL));
            if (!victim.extent) {
                break;
            }
            struct chunk *chunk = &victim.extent->chunks[victim.index];
            CHECK(is(choose_to_restore(room, &missing), victim.extent, victim.index));
            chunk->state = CHUNK_RESIDENT;
            room -= chunk->bytes;
        }
        reset();
    }
}

static void test_what_was_chosen_ahead_is_forgotten_with_its_extent(void)
{
    struct victims ahead = {.count = 0};
    struct extent *one = WITH(8, 8);
    struct extent *two = WITH(8, 8);
    CHECK(is(victim_choose(&ahead, &device, 64 * MIB, true), two, 0));
    two->chunks[0].state = CHUNK_EVICTED;
    CHECK(is(victim_choose(&ahead, &device, 64 * MIB, true), two, 1));
    extent_retire(two);
    CHECK(is(victim_choose(&ahead, &device, 64 * MIB, true), one, 0));
    one->pins = 1;
    CHECK(is(victim_choose(&ahead, &device, 64 * MIB, true), NULL, 0));
    reset();
}

/* One look at all chunks is enough for many choices. */
static void test_all_chunks_are_looked_at_now_and_then(void)
{
    struct victims ahead = {.count = 0};
    unsigned looks = 0;
    for (unsigned e = 0; e < 60; e++) {
        WITH(4, 4, 4, 4, 4, 4, 4, 4);
    }
    for (unsigned i = 0; i < 480; i++) {
        struct victim victim = victim_choose(&ahead, &device, 4000 * MIB, true);
        CHECK(victim.extent != NULL);
        looks += is(ahead.items[0], victim.extent, victim.index);
        victim.extent->chunks[victim.index].state = CHUNK_EVICTED;
    }
    CHECK(looks == (480 + VICTIMS_AHEAD - 1) / VICTIMS_AHEAD);
    reset();
}

int main(void)
{
    test_the_largest_that_fits_then_the_youngest();
    test_zeros_go_first();
    test_clean_ones_go_before_those_that_are_copied();
    test_what_cannot_move_stays();
    test_chunks_that_were_not_scanned_wait();
    test_the_largest_that_there_is_room_for_comes_back();
    test_any_extents();
    test_what_is_chosen_ahead_is_what_would_be_chosen_then();
    test_what_was_chosen_ahead_is_forgotten_with_its_extent();
    test_all_chunks_are_looked_at_now_and_then();
    return check_end();
}
