/* Streams in which pooled memory was freed, and how far each of them has come.
 *
 * A free is a number and no call of the driver: the frees of a stream are counted, and a free is over when
 * the stream has come past it. That is found out when memory is wanted: an idle stream has come past all its
 * frees; for another one an event is recorded then, which is later than the free, so it says enough.
 * Everything here is under pools_lock.
 */
#ifndef MOIETY_SHIM_POOL_STREAM_FENCE_H
#define MOIETY_SHIM_POOL_STREAM_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"
#include "shim/mem/device.h"

/* Of all pools. Never held while the agent is asked, at the gate, or while a move is waited for. */
extern struct lock pools_lock;

struct stream_fence {
    struct stream_fence *next;
    CUstream stream;
    CUcontext context;
    CUdevice ordinal;
    uint64_t thread;   /* it is the default stream of this thread; 0: of none */
    bool blocking;     /* it and the legacy stream wait for each other */
    bool gone;         /* the stream was destroyed, but its frees may not be over */
    uint64_t freed;    /* the number of the last free in it */
    uint64_t over;     /* frees up to this number are over */
    CUevent event;     /* NULL: none was needed yet */
    uint64_t recorded; /* the number of the free that the event is behind */
    uint64_t pieces;   /* how many pieces wait for it */
};

/* The fence of a stream, as the program names it; the driver's error codes for a bad name. */
CUresult stream_fence_of(CUstream stream, struct stream_fence **fence);
/* Counts one more free; returns its number. */
uint64_t stream_fence_free(struct stream_fence *fence);
static inline bool stream_fence_is_over(const struct stream_fence *fence, uint64_t number)
{
    return fence->over >= number;
}
/* Looks how far the streams are that pieces wait for. True: one has come further. While a capture is open nothing is
 * asked: each question could break one that begins at this moment. */
bool stream_fences_poll(void);
/* The same also while a capture is open, of each stream that takes no part in it. With streams_lock. */
bool stream_fences_poll_uncaptured(void);
/* Has `stream` wait for all frees of the fence. */
CUresult stream_fence_await(struct stream_fence *fence, CUstream stream);
/* A stream is about to be destroyed; a context is gone, and all that ran in it is over. */
void stream_fences_forget_stream(CUstream stream);
void stream_fences_forget_context(CUcontext context);
void stream_fences_after_fork(void);

#endif
