/* A set of numbers as spans of them, sorted and never adjacent: what is free of a range of
 * addresses or of a file. Callers lock. */
#ifndef SIMGPU_SPANS_H
#define SIMGPU_SPANS_H

#include <stddef.h>
#include <stdint.h>

#define SG_NO_SPAN UINT64_MAX

struct sg_spans {
    struct sg_span {
        uint64_t base, end;
    } *at;
    size_t count, capacity;
};

void sg_spans_give(struct sg_spans *spans, uint64_t base, uint64_t bytes);

/* Out of the first span that has them, or the one that has the fewest more: where they begin, or SG_NO_SPAN. */
uint64_t sg_spans_take(struct sg_spans *spans, uint64_t bytes, uint64_t alignment);
uint64_t sg_spans_take_tight(struct sg_spans *spans, uint64_t bytes);

/* Just these. 1: they were there. */
int sg_spans_take_at(struct sg_spans *spans, uint64_t base, uint64_t bytes);

#endif
