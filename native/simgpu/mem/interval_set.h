/* A set of numbers as spans of them, sorted and never adjacent: what is free of a range of
 * addresses or of a file. Callers lock. */
#ifndef SIMGPU_INTERVAL_SET_H
#define SIMGPU_INTERVAL_SET_H

#include <stddef.h>
#include <stdint.h>

#define SG_NO_INTERVAL UINT64_MAX

struct sg_interval_set {
    struct sg_interval {
        uint64_t base, end;
    } *at;
    size_t count, capacity;
};

void sg_interval_set_add(struct sg_interval_set *spans, uint64_t base, uint64_t bytes);

/* Out of the first span that has them, or the one that has the fewest more: where they begin, or SG_NO_INTERVAL. */
uint64_t sg_interval_set_take(struct sg_interval_set *spans, uint64_t bytes, uint64_t alignment);
uint64_t sg_interval_set_take_best_fit(struct sg_interval_set *spans, uint64_t bytes);

/* Just these. 1: they were there. */
int sg_interval_set_take_at(struct sg_interval_set *spans, uint64_t base, uint64_t bytes);

#endif
