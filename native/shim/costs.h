/* What submissions cost, in GPU time, as learned from how long batches of them took. */
#ifndef MOIETY_SHIM_COSTS_H
#define MOIETY_SHIM_COSTS_H

#include <stdint.h>

#include "shim/track.h"

#define BATCH_MAX 4096u

/* A bound from here on costs no throughput: long kernels among short ones are weighed as the average
 * of both, and the GPU has one batch, or one long kernel, to do beside the one it does. */
#define WIDE_NS 1000000ull

static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A mark's batch took between lo_ns and hi_ns. */
void cost_learn(struct track *track, const struct mark *mark, uint64_t lo_ns, uint64_t hi_ns);
/* Of a graph or copy of this kind, in ns; 0: not known. */
uint64_t cost_of_long(const void *key);
/* Of a kernel, in ps, where so much may be unfinished; 0: not known. */
uint64_t cost_for(const struct track *track, uint64_t bound_ns);
/* How many kernels are half of the bound. */
uint32_t cost_batch(const struct track *track, uint64_t bound_ns);

#endif
