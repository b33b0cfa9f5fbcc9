/* Queue markers: what one thread submits to one stream, with marks (events of the shim) in it.
 *
 * They belong to their thread; other threads write only `lost`. Events belong to a context and are
 * gone with it, so `lost` says that the context or the stream was destroyed.
 */
#ifndef MOIETY_SHIM_GATE_QUEUE_MARKERS_H
#define MOIETY_SHIM_GATE_QUEUE_MARKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/gate/queue_margin.h"

#define QUEUE_MARKERS_MAX 8

/* The end of a batch: when its event is done, so is all that was submitted before. */
struct mark {
    CUevent event;
    bool made;
    uint64_t began_ns;    /* nothing of the batch was submitted before this */
    uint64_t recorded_ns; /* all of the batch was submitted by then */
    uint64_t expected_ns; /* of GPU time */
    uint32_t kernels;
    const void *key; /* the kind of its long submissions */
    uint32_t longs;
    uint64_t others_ns; /* expected of all others */
};

enum markers_loss {
    MARKERS_LOST_STREAM = 1,
    MARKERS_LOST_CONTEXT = 2, /* the events are gone with it */
};

struct queue_markers {
    struct queue_markers *next; /* of the same thread */
    struct queue_markers *next_of_all;
    bool is_free; /* its thread has ended */
    _Atomic uint32_t lost;
    CUstream stream;
    CUcontext context;

    /* what was marked, oldest first */
    struct mark marks[QUEUE_MARKERS_MAX];
    uint32_t first;
    uint32_t count;
    uint64_t sum_ns;     /* expected of all of them */
    uint64_t busy_ns;    /* when the oldest was last seen not to be done */
    uint64_t done_lo_ns; /* the one before it was done not before this */
    uint64_t done_hi_ns; /* and not after this */

    /* the batch that is being submitted */
    uint32_t left;    /* kernels until it is marked, while the thread uses other markers */
    uint32_t granted; /* the kernels that it may have */
    uint64_t began_ns;
    const void *key;
    uint32_t longs;
    uint64_t longs_ns;
    uint64_t others_ns;

    /* what was learned */
    uint64_t bound_ns; /* the bound that `left` was computed for */
    uint32_t batch;
    uint64_t cost_ps;    /* of a kernel, of the longer ones; 0: not known */
    uint64_t mean_ps;    /* the same, of all */
    uint64_t proof_ps;   /* the most that one surely took, lately */
    uint32_t held;       /* what of an expected time is sure, of HELD_ALL */
    uint64_t slowest_ns; /* the longest that a batch surely took, lately */
    uint32_t given_up;   /* waits in a row that did not end */
    struct queue_margin margin;
    uint64_t passes; /* the thread's gated calls when the last batch was marked */
    uint32_t lease;  /* the lease word then */
};

/* The calling thread's markers for a stream (NULL, legacy and per-thread: of the current context),
 * with lost ones made anew; NULL when there is no memory or no context. */
struct queue_markers *queue_markers_of(CUstream stream);
/* True if the markers still stand for the stream: it was not lost, nor did the context change. */
bool queue_markers_are_good(const struct queue_markers *markers, CUstream stream);
/* Makes a mark's event in the markers' context. */
bool queue_markers_make_event(const struct queue_markers *markers, struct mark *mark);

/* The stream is about to be destroyed; the context is gone. */
void queue_markers_forget_stream(CUstream stream);
void queue_markers_forget_context(CUcontext context);
void queue_markers_after_fork(void);

#endif
