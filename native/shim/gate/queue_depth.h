/* The bounded queue: how much unfinished work a program may have submitted, in GPU time.
 *
 * Whenever a batch of submissions is full, an event is recorded right behind its last one, in the
 * same call; before the next batch begins, its thread waits until older ones are done. How many
 * submissions make a batch is learned from how long batches took, so that two of them hold no more
 * than the bound. Without a bound nothing of this happens (docs/decisions/0006).
 */
#ifndef MOIETY_SHIM_GATE_QUEUE_DEPTH_H
#define MOIETY_SHIM_GATE_QUEUE_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct queue_markers;

/* Where the calling thread submits. */
struct queue_depth_here {
    uint64_t bound_ns; /* the bound that `left` was computed for */
    CUstream stream;
    uint32_t left; /* submissions until the batch is full */
    uint32_t run;  /* submissions of `run_key` that are counted ahead */
    const void *run_key;
    uint64_t run_cost_ns; /* of one of them */
    struct queue_markers *markers;
};

extern uint64_t queue_depth_bound_ns; /* 0: none */
extern __thread struct queue_depth_here queue_depth_here __attribute__((tls_model("initial-exec")));

/* Copies of less than this count like kernels; others take long enough to be known by their size. */
#define QUEUE_DEPTH_SMALL_COPY_BYTES ((size_t)256 << 10)

/* Sets the bound; 0 ends it, also for threads that wait. */
void queue_depth_set(uint64_t queue_us);
/* The slow halves of queue_depth_count and queue_depth_count_long. */
bool queue_depth_wait_turn(CUstream stream, const void *key);
/* From now on work of this process may wait for what its threads do later. */
void queue_depth_be_impatient(void);
/* Marks the end of a batch: called inside the gate with the driver's result of its last
 * submission. */
void queue_depth_mark(CUstream stream, CUresult result);
/* The stream is about to be destroyed; the context is gone. */
void queue_depth_forget_stream(CUstream stream);
void queue_depth_forget_context(CUcontext context);
void queue_depth_after_fork(void);

/* Called before a submission, outside the gate; waits for room. True: queue_depth_mark must follow
 * the submission. A stream is given as the plain flavour of a call takes it. */
static inline bool queue_depth_count(CUstream stream)
{
    uint64_t bound = __atomic_load_n(&queue_depth_bound_ns, __ATOMIC_RELAXED);
    if (__builtin_expect(!bound, 1)) {
        return false;
    }
    struct queue_depth_here *here = &queue_depth_here;
    if (__builtin_expect(here->left <= 1 || here->stream != stream || here->bound_ns != bound, 0)) {
        return queue_depth_wait_turn(stream, NULL);
    }
    here->left--;
    return false;
}

/* The same for one that may take long and is known by `key`: a graph. */
static inline bool queue_depth_count_long(CUstream stream, const void *key)
{
    uint64_t bound = __atomic_load_n(&queue_depth_bound_ns, __ATOMIC_RELAXED);
    if (__builtin_expect(!bound, 1)) {
        return false;
    }
    struct queue_depth_here *here = &queue_depth_here;
    if (here->run && here->run_key == key && here->stream == stream && here->bound_ns == bound) {
        here->run--;
        return false;
    }
    return queue_depth_wait_turn(stream, key);
}

/* The same for a copy. */
static inline bool queue_depth_count_copy(CUstream stream, size_t bytes)
{
    if (__builtin_expect(bytes < QUEUE_DEPTH_SMALL_COPY_BYTES, 1)) {
        return queue_depth_count(stream);
    }
    /* its order of magnitude; no graph has such an address */
    return queue_depth_count_long(stream, (const void *)(uintptr_t)(64 - __builtin_clzll(bytes)));
}

#endif
