#include "shim/pool/trim.h"

#include <stdlib.h>

#include "shim/gate/streams.h"
#include "shim/mem/release.h"
#include "shim/mem/unevictable.h"

struct pool *pools;
_Atomic bool trim_is_due;

/* Times that something was taken out of pools, and was given back after that. */
static uint32_t began;
static _Atomic uint32_t ended;

static void count(struct taken *taken)
{
    began += !taken->counted;
    taken->counted = true;
}

/* Another thread may allocate before the segment is given back, so its pieces go at once. */
static void take_segment(struct segment *segment, struct taken *taken)
{
    heap_drop_pieces(segment);
    segment->next = taken->segments;
    taken->segments = segment;
}

static bool take_segments(struct pool *pool, uint64_t keep, struct taken *taken)
{
    bool any = false;
    for (struct segment **at = &pool->segments; *at && pool->reserved > keep;) {
        struct segment *segment = *at;
        /* As the driver does: no less is kept than was asked for. */
        if (heap_segment_is_free(segment) && pool->reserved - segment->bytes >= keep) {
            *at = segment->next;
            pool->reserved -= segment->bytes;
            take_segment(segment, taken);
            any = true;
        } else {
            at = &segment->next;
        }
    }
    return any;
}

bool trim_take(struct pool *pool, uint64_t keep, uint64_t keep_parts, struct taken *taken)
{
    uint64_t bytes = 0;
    heap_join(&pool->heap, pool->segments);
    bool any = take_segments(pool, keep, taken);
    if (pool->reserved > keep_parts) {
        bytes = decommit_begin(&pool->heap, pool->segments, pool->reserved - keep_parts,
                               &taken->decommits);
        pool->reserved -= bytes;
    }
    if (any || bytes) {
        count(taken);
    }
    return any || bytes;
}

void trim_take_all(struct pool *pool, struct taken *taken)
{
    while (pool->segments) {
        struct segment *segment = pool->segments;
        pool->segments = segment->next;
        pool->reserved -= segment->bytes;
        take_segment(segment, taken);
        count(taken);
    }
    pool->used = 0;
}

void trim_remove_empty(void)
{
    for (struct pool **at = &pools; *at;) {
        struct pool *pool = *at;
        if (!pool->handle && !pool->segments) {
            *at = pool->next;
            free(pool);
        } else {
            at = &pool->next;
        }
    }
}

bool trim_give_back(struct taken *taken)
{
    bool any = taken->counted;
    decommit_finish(&taken->decommits);
    while (taken->segments) {
        struct segment *next = taken->segments->next;
        struct extent *extent = taken->segments->extent;
        lock_take(&extent_lock);
        extent_retire(extent);
        lock_drop(&extent_lock);
        lock_take(&pools_lock); /* a thread that found the extent looks at the segment under it */
        heap_drop_segment(taken->segments);
        lock_drop(&pools_lock);
        release_extent(extent);
        taken->segments = next;
    }
    if (any) {
        taken->counted = false;
        atomic_fetch_add(&ended, 1);
        futex_wake_all(&ended);
    }
    return any;
}

/* Waits for what other threads took out of pools before, if they did not give it back yet. */
static bool await_others(void)
{
    lock_take(&pools_lock);
    uint32_t all = began;
    lock_drop(&pools_lock);
    uint32_t seen = atomic_load(&ended);
    bool any = (int32_t)(all - seen) > 0;
    while ((int32_t)(all - seen) > 0) {
        futex_wait(&ended, seen, -1);
        seen = atomic_load(&ended);
    }
    return any;
}

void trim_pool(struct pool *pool, uint64_t keep_bytes)
{
    bool more = true;
    while (more) {
        struct taken taken = {0};
        lock_take(&pools_lock);
        stream_fences_poll();
        trim_take(pool, keep_bytes, keep_bytes, &taken);
        lock_drop(&pools_lock);
        more = trim_give_back(&taken);
    }
}

static bool may_shrink(const struct pool *pool)
{
    return pool->reserved > pool->threshold && pool->used < pool->reserved;
}

void trim_note(const struct pool *pool)
{
    if (may_shrink(pool)) {
        atomic_store_explicit(&trim_is_due, true, memory_order_relaxed);
    }
}

/* What of partly used segments is kept when the program waits for the GPU: one step more than it uses,
 * so that what is allocated and freed again and again beside long-lived pieces costs nothing. */
static uint64_t parts_to_keep(const struct pool *pool)
{
    uint64_t least = pool->used + pool->step;
    return least > pool->threshold ? least : pool->threshold;
}

static bool shrink_all(const struct device *device, bool all)
{
    bool any = false;
    bool more = true;
    while (more) {
        struct taken taken = {0};
        bool looked = false;
        bool found = false;
        if (all) { /* it is asked beside captures as well */
            lock_take(&streams_lock);
        }
        lock_take(&pools_lock);
        atomic_store_explicit(&trim_is_due, false, memory_order_relaxed);
        for (struct pool *pool = pools; pool && !found; pool = pool->next) {
            bool wanted = !device || pool->ordinal == device->ordinal;
            if (wanted && (all ? pool->used < pool->reserved : may_shrink(pool))) {
                if (!looked) {
                    looked = true;
                    (void)(all ? stream_fences_poll_uncaptured() : stream_fences_poll());
                }
                found = trim_take(pool, all ? 0 : pool->threshold, all ? 0 : parts_to_keep(pool),
                                  &taken);
                trim_note(pool);
            }
        }
        trim_remove_empty();
        lock_drop(&pools_lock);
        if (all) {
            lock_drop(&streams_lock);
        }
        more = trim_give_back(&taken);
        any |= more;
    }
    return any;
}

void trim_all(void)
{
    shrink_all(NULL, false);
    unevictable_settle_pools();
}

void trim_note_free(void) { atomic_store_explicit(&trim_is_due, true, memory_order_relaxed); }

bool trim_reclaim(const struct device *device)
{
    bool any = shrink_all(device, true);
    any |= release_deferred(device);
    return await_others() || any;
}

void trim_after_fork(void)
{
    pools = NULL;
    began = 0;
    atomic_store(&ended, 0);
    lock_after_fork(&pools_lock);
    atomic_store(&trim_is_due, false);
}
