#include "shim/gate/launch_cost.h"

#define KINDS 256u

/* What long submissions took, for all threads. A later kind replaces an earlier one at its
 * place. */
static struct kind {
    const void *key;
    uint64_t cost_ns;
} kinds[KINDS];

static struct kind *kind_of(const void *key)
{
    uintptr_t at = (uintptr_t)key;
    return &kinds[(at ^ at >> 4 ^ at >> 12) % KINDS];
}

uint64_t launch_cost_of_long(const void *key)
{
    struct kind *kind = kind_of(key);
    uint64_t cost_ns = __atomic_load_n(&kind->cost_ns, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&kind->key, __ATOMIC_RELAXED) == key ? cost_ns : 0;
}

/* How much of what was expected was seen to be so. A thread that slept sees only a part of a batch, so half of
 * it is enough. That is forgotten slowly, but soon when work surely takes less than was expected. */
static void learn_held(struct queue_markers *markers, uint64_t expected_ns, uint64_t lo_ns,
                       uint64_t hi_ns)
{
    uint64_t seen_ns = min_u64(2 * lo_ns, expected_ns);
    uint32_t held = expected_ns ? (uint32_t)(seen_ns * HELD_ALL / expected_ns) : 0;
    if (hi_ns < expected_ns - expected_ns / 8) {
        markers->held = (markers->held + held) / 2;
    } else {
        markers->held = (uint32_t)max_u64(held, markers->held - markers->held / 8);
    }
}

void launch_cost_learn(struct queue_markers *markers, const struct mark *mark, uint64_t lo_ns,
                       uint64_t hi_ns)
{
    learn_held(markers, mark->expected_ns, lo_ns, hi_ns);
    markers->slowest_ns = max_u64(lo_ns, markers->slowest_ns - markers->slowest_ns / 8);
    if (mark->longs) {
        struct kind *kind = kind_of(mark->key);
        uint64_t lo = (lo_ns > mark->others_ns ? lo_ns - mark->others_ns : 0) / mark->longs;
        uint64_t hi = max_u64(hi_ns / mark->longs, 1);
        uint64_t known = launch_cost_of_long(mark->key);
        __atomic_store_n(&kind->key, mark->key, __ATOMIC_RELAXED);
        __atomic_store_n(&kind->cost_ns, known ? max_u64(lo, min_u64(known, hi)) : hi,
                         __ATOMIC_RELEASE);
        return;
    }
    uint64_t kernels = max_u64(mark->kernels, 1);
    uint64_t lo = lo_ns * 1000 / kernels;
    uint64_t hi = max_u64(hi_ns * 1000 / kernels, 1);
    /* What was surely taken is forgotten slowly, or each row of short kernels would hide long ones
     * that come again; what only may have been taken, at once. */
    markers->proof_ps = max_u64(lo, markers->proof_ps - markers->proof_ps / 8);
    uint64_t most = max_u64(hi, markers->proof_ps);
    markers->cost_ps = max_u64(lo, markers->cost_ps ? min_u64(markers->cost_ps, most) : most);
    if (!markers->mean_ps) {
        markers->mean_ps = markers->cost_ps;
    }
    if (markers->mean_ps < lo) {
        markers->mean_ps += (lo - markers->mean_ps + 3) / 4;
    } else if (markers->mean_ps > hi) {
        markers->mean_ps -= (markers->mean_ps - hi) / 4;
    }
    markers->mean_ps = min_u64(markers->mean_ps, markers->cost_ps); /* which no pause is left in */
}

uint64_t launch_cost_surely(const struct queue_markers *markers, uint64_t expected_ns)
{
    return expected_ns * markers->held / HELD_ALL;
}

uint64_t launch_cost_for(const struct queue_markers *markers, uint64_t bound_ns)
{
    return bound_ns < WIDE_NS ? markers->cost_ps : markers->mean_ps;
}

uint32_t launch_cost_batch(const struct queue_markers *markers, uint64_t bound_ns)
{
    uint64_t cost_ps = launch_cost_for(markers, bound_ns);
    if (!cost_ps) {
        return 1;
    }
    uint64_t fits = bound_ns / 2 * 1000 / cost_ps;
    return (uint32_t)max_u64(1, min_u64(fits, BATCH_MAX));
}
