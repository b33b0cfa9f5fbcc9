/* What submissions cost, in GPU time, as learned from how long batches of them took. */
#ifndef MOIETY_SHIM_GATE_LAUNCH_COST_H
#define MOIETY_SHIM_GATE_LAUNCH_COST_H

#include <stdint.h>

#include "shim/gate/queue_markers.h"

#define BATCH_MAX 4096u

/* A bound from here on costs no throughput: long kernels among short ones are weighed as the average
 * of both, and the GPU has one batch, or one long kernel, to do beside the one it does. */
#define WIDE_NS 1000000ull

/* All that was expected. */
#define HELD_ALL 256u

static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A mark's batch took between lo_ns and hi_ns. */
void launch_cost_learn(struct queue_markers *markers, const struct mark *mark, uint64_t lo_ns,
                       uint64_t hi_ns);
/* Of a graph or copy of this kind, in ns; 0: not known. */
uint64_t launch_cost_of_long(const void *key);
/* Of a kernel, in ps, where so much may be unfinished; 0: not known. */
uint64_t launch_cost_for(const struct queue_markers *markers, uint64_t bound_ns);
/* What of the expected time is sure, by how far past expectations held. */
uint64_t launch_cost_surely(const struct queue_markers *markers, uint64_t expected_ns);
/* How many kernels are half of the bound. */
uint32_t launch_cost_batch(const struct queue_markers *markers, uint64_t bound_ns);

#endif
