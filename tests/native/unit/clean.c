/* What becomes of host copies of resident chunks: when they are true, and when they are given back. */
#include "shim/swap/clean.h"

#include <stdlib.h>

#include "fake_driver.h"
#include "shim/agent/client_report.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/free_cache.h"
#include "shim/mem/upcalls.h"
#include "shim/swap/host_arena.h"

#include "check.h"

#define MIB (1ull << 20)

static bool is_pinned; /* all of the process */

bool client_is_pinned(void) { return is_pinned; }

static struct device device = {.chunk_bytes = 64 * MIB, .lease_count = 3};
static const struct content_hash one = {{1, 2}}, other = {{1, 3}};

/* An extent of one chunk, which is resident and has a host copy with the first hash. */
static struct extent *with_copy(uint64_t mib)
{
    struct extent *made = NULL;
    bool whole = false;
    CHECK(extent_make(&made, &device, mib * MIB, CUT_WHOLE) == CUDA_SUCCESS);
    CHECK(extent_map(made, UINT32_MAX, &whole) == CUDA_SUCCESS && whole);
    CHECK(extent_table_insert(made) == 0);
    made->chunks[0].host = host_arena_take(mib * MIB);
    made->chunks[0].is_hashed = true;
    made->chunks[0].hash = one;
    CHECK(made->chunks[0].host);
    clean_restored(&made->chunks[0], true);
    return made;
}

static void end(struct extent *extent)
{
    extent_table_remove(extent);
    extent_destroy(extent);
}

static void *arena(uint64_t mib, uint64_t segment)
{
    void *base = aligned_alloc(4096, mib * MIB);
    CHECK(base && host_arena_add(base, mib * MIB, segment) == 0);
    return base;
}

static void test_the_hash_says_whether_the_copy_is_true(void)
{
    void *base = arena(8, 1);
    struct extent *extent = with_copy(4);
    struct chunk *chunk = &extent->chunks[0];
    clean_scanned(chunk, 3, false, &one);
    CHECK(chunk->content == CHUNK_CLEAN && chunk->host && clean_costs_nothing(chunk));
    clean_scanned(chunk, 4, false, &other);
    CHECK(chunk->content == CHUNK_DATA && !chunk->host && !clean_costs_nothing(chunk));
    CHECK(chunk->is_hashed && chunk->hash.of[1] == 3 && chunk->changes == 1);
    CHECK(!host_arena_uses(1));
    end(extent);
    extent = with_copy(4);
    chunk = &extent->chunks[0];
    clean_scanned(chunk, 3, false, NULL); /* the kernel did not run */
    CHECK(chunk->content == CHUNK_DATA && !chunk->host && !chunk->is_hashed);
    end(extent);
    extent = with_copy(4);
    clean_scanned(&extent->chunks[0], 3, true, &one);
    CHECK(extent->chunks[0].content == CHUNK_ZERO && !extent->chunks[0].host);
    end(extent);
    extent = with_copy(4);
    extent->chunks[0].is_hashed = false; /* the copy's own hash is not known */
    clean_scanned(&extent->chunks[0], 3, false, &one);
    CHECK(extent->chunks[0].content == CHUNK_DATA && !extent->chunks[0].host);
    end(extent);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_memory_is_hashed_where_reading_it_costs_little_beside_a_copy(void)
{
    CHECK(clean_is_worth_it(1555e9, 25e9)); /* a card on PCIe */
    CHECK(clean_is_worth_it(4e12, 450e9));  /* beside a processor with a link of its own */
    CHECK(!clean_is_worth_it(200e9, 90e9)); /* both are the same memory */
    CHECK(clean_is_worth_it(0, 90e9) && clean_is_worth_it(200e9, 0)); /* not known */
}

static void test_a_copy_that_is_given_back_makes_its_chunk_data(void)
{
    void *base = arena(8, 1);
    struct extent *extent = with_copy(4);
    struct chunk *chunk = &extent->chunks[0];
    clean_scanned(chunk, 3, false, &one);
    CHECK(host_arena_take(8 * MIB) == NULL);
    CHECK(clean_make_room(8 * MIB));
    CHECK(chunk->host == NULL && chunk->content == CHUNK_DATA && !clean_costs_nothing(chunk));
    CHECK(host_arena_take(8 * MIB) == base);
    host_arena_give_back(base, 8 * MIB);
    chunk->content = CHUNK_CLEAN; /* even so: nothing is had for nothing without the copy */
    CHECK(!clean_costs_nothing(chunk));
    chunk->content = CHUNK_DATA;
    end(extent);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_what_is_needed_of_the_arena_is_published(void)
{
    uint64_t needed_bytes = 1;
    void *base = arena(16, 1);
    void *taken = host_arena_take(4 * MIB);
    host_arena_publish(&needed_bytes);
    CHECK(needed_bytes == 4 * MIB);
    struct extent *extent = with_copy(6);
    CHECK(needed_bytes == 4 * MIB); /* the copy of what is resident is spare */
    host_arena_set_spare(extent->chunks[0].host, 6 * MIB, true);
    CHECK(needed_bytes == 4 * MIB); /* it was spare */
    clean_use_copy(&extent->chunks[0]);
    CHECK(needed_bytes == 10 * MIB);
    host_arena_give_back(taken, 4 * MIB);
    CHECK(needed_bytes == 6 * MIB);
    host_arena_set_spare(extent->chunks[0].host, 6 * MIB, true);
    CHECK(needed_bytes == 0);
    end(extent);
    CHECK(needed_bytes == 0);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_no_copy_is_given_up_in_vain(void)
{
    void *base = arena(8, 1);
    struct extent *first = with_copy(4), *evicted = with_copy(2), *second = with_copy(2);
    clean_use_copy(&evicted->chunks[0]);
    CHECK(!clean_make_room(6 * MIB)); /* the copy between them is needed */
    CHECK(!clean_make_room(64 * MIB));
    CHECK(first->chunks[0].host && second->chunks[0].host);
    CHECK(clean_make_room(2 * MIB));
    CHECK(!first->chunks[0].host && evicted->chunks[0].host && second->chunks[0].host);
    CHECK(!host_arena_is_all_spare(1));
    clean_drop_within(base, 8 * MIB);
    CHECK(evicted->chunks[0].host && !second->chunks[0].host);
    end(evicted);
    end(first);
    end(second);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_a_segment_with_only_spare_copies_can_be_emptied(void)
{
    void *base = arena(4, 1), *beside = arena(4, 2);
    struct extent *first = with_copy(4), *second = with_copy(2);
    CHECK(host_arena_is_all_spare(1) && host_arena_is_all_spare(2));
    first->chunks[0].state = CHUNK_MOVING; /* as one whose copy comes in */
    clean_drop_within(base, 4 * MIB);
    CHECK(first->chunks[0].host);
    first->chunks[0].state = CHUNK_RESIDENT;
    clean_drop_within(base, 4 * MIB);
    CHECK(!first->chunks[0].host && second->chunks[0].host);
    CHECK(!host_arena_uses(1) && !host_arena_is_all_spare(1) && host_arena_uses(2));
    end(first);
    end(second);
    CHECK(host_arena_remove(1) && host_arena_remove(2));
    free(base);
    free(beside);
}

static void test_a_chunk_that_stays_after_all_has_a_spare_copy(void)
{
    void *base = arena(8, 1);
    struct extent *extent = with_copy(8);
    struct chunk *chunk = &extent->chunks[0];
    clean_scanned(chunk, 3, false, &one);
    clean_use_copy(chunk); /* to compare it with what is copied out, which fails */
    CHECK(!clean_make_room(8 * MIB));
    clean_stays(chunk);
    CHECK(chunk->host && chunk->content == CHUNK_CLEAN);
    CHECK(clean_make_room(8 * MIB) && !chunk->host);
    clean_stays(chunk); /* without a copy: nothing */
    end(extent);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_what_others_may_write_is_never_hashed(void)
{
    void *base = arena(8, 1);
    struct extent *extent = with_copy(2);
    struct chunk *chunk = &extent->chunks[0];
    CHECK(clean_wants_hash(extent, chunk));
    extent->pins = 1;
    CHECK(!clean_wants_hash(extent, chunk));
    extent->pins = 0;
    extent->was_pinned = true;
    CHECK(!clean_wants_hash(extent, chunk));
    extent->was_pinned = false;
    extent->exported = true;
    CHECK(!clean_wants_hash(extent, chunk));
    extent->exported = false;
    CHECK(clean_wants_hash(extent, chunk));
    is_pinned = true; /* as by a multicast object */
    CHECK(!clean_wants_hash(extent, chunk));
    is_pinned = false;
    const struct extent_ops *own = extent->ops;
    const struct extent_ops managed = {.kind = EXTENT_MANAGED};
    extent->ops = &managed;
    CHECK(!clean_wants_hash(extent, chunk));
    extent->ops = own;
    CHECK(clean_wants_hash(extent, chunk));
    end(extent);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_a_chunk_that_always_changes_is_hashed_seldom(void)
{
    void *base = arena(8, 1);
    struct extent *extent = with_copy(2);
    struct chunk *chunk = &extent->chunks[0];
    unsigned hashed = 0;
    for (unsigned lease = 1; lease <= 160; lease++) {
        device.lease_count = lease;
        bool wanted = clean_wants_hash(extent, chunk);
        hashed += wanted;
        struct content_hash now = {{lease, lease}};
        clean_scanned(chunk, lease, false, wanted ? &now : NULL);
        if (chunk->is_hashed) { /* it leaves, and comes back with its copy */
            chunk->host = host_arena_take(2 * MIB);
            clean_restored(chunk, true);
        }
    }
    CHECK(hashed >= 3 && hashed <= 3 + 2 * 160 / 16 + 1);
    device.lease_count = 3;
    end(extent);
    CHECK(host_arena_remove(1));
    free(base);
}

static void test_memory_that_is_cached_for_another_has_no_copy(void)
{
    void *base = arena(8, 1);
    struct extent *extent = with_copy(2);
    extent_table_remove(extent);
    CHECK(free_cache_put(extent));
    CHECK(!extent->chunks[0].host && !host_arena_uses(1));
    CHECK(free_cache_take(&device, 2 * MIB, 1) == extent);
    extent_destroy(extent);
    CHECK(host_arena_remove(1));
    free(base);
}

int main(void)
{
    setenv("MOIETY_CLEAN", "off", 1);
    clean_read_mode();
    CHECK(clean_mode() == CLEAN_OFF);
    unsetenv("MOIETY_CLEAN"); /* what the program does later changes nothing */
    CHECK(clean_mode() == CLEAN_OFF);
    clean_read_mode(); /* it is on unless it is switched off */
    CHECK(clean_mode() == CLEAN_ON);
    fake_driver();
    mem_upcalls.host_free = host_arena_give_back;
    test_the_hash_says_whether_the_copy_is_true();
    test_memory_is_hashed_where_reading_it_costs_little_beside_a_copy();
    test_a_copy_that_is_given_back_makes_its_chunk_data();
    test_what_is_needed_of_the_arena_is_published();
    test_no_copy_is_given_up_in_vain();
    test_a_segment_with_only_spare_copies_can_be_emptied();
    test_a_chunk_that_stays_after_all_has_a_spare_copy();
    test_what_others_may_write_is_never_hashed();
    test_a_chunk_that_always_changes_is_hashed_seldom();
    test_memory_that_is_cached_for_another_has_no_copy();
    return check_end();
}
