/* A set of 64-bit numbers, kept as half-open intervals that are sorted and never touch each other. It holds
 * what is free of a range of addresses or of a file. The caller holds a lock. */
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

/* Adds numbers of which the set has none. */
void sg_interval_set_add(struct sg_interval_set *set, uint64_t base, uint64_t bytes);

/* Takes `bytes` numbers, the first of them aligned, from the lowest interval that has them. Returns
 * the first, or SG_NO_INTERVAL. */
uint64_t sg_interval_set_take(struct sg_interval_set *set, uint64_t bytes, uint64_t alignment);
/* Takes them from the beginning of the smallest interval that is large enough. */
uint64_t sg_interval_set_take_best_fit(struct sg_interval_set *set, uint64_t bytes);

/* Takes exactly these. Returns 1, or 0 and takes nothing where the set lacks one of them. */
int sg_interval_set_take_at(struct sg_interval_set *set, uint64_t base, uint64_t bytes);

#endif
