/* Streams in which pooled memory was freed, and how far each of them has got.
 *
 * A free is a number and no call of the driver: frees are counted, and memory that was freed in a
 * stream is over when the stream has come past that number. Which is found out when somebody wants
 * to know: a stream that is idle has come past everything, and otherwise an event is recorded then;
 * later than the free, so it says enough. Everything here is under pools_lock.
 */
#ifndef MOIETY_SHIM_POOL_STREAM_FENCE_H
#define MOIETY_SHIM_POOL_STREAM_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct stream_fence {
    struct stream_fence *next;
    CUstream stream;
    CUcontext context;
    CUdevice ordinal;
    uint64_t thread;   /* whose own default stream it is; 0: no thread's */
    bool blocking;     /* the legacy stream waits for it, and it for that one */
    bool gone;         /* the stream was destroyed, what was freed in it may not be over */
    uint64_t freed;    /* number of the last free in it */
    uint64_t over;     /* up to here they are over */
    CUevent event;     /* NULL: none was needed yet */
    uint64_t recorded; /* what the event stands for */
    uint64_t pieces;   /* of memory that wait for it */
};

/* The line of a stream, as the program names it; the driver's error codes for a bad name. */
CUresult stream_fence_of(CUstream stream, struct stream_fence **fence);
/* One more free: its number. */
uint64_t stream_fence_free(struct stream_fence *fence);
static inline bool stream_fence_is_over(const struct stream_fence *fence, uint64_t number)
{
    return fence->over >= number;
}
/* Looks how far the lines are that somebody waits for; whether any of them has come further. */
bool stream_fences_poll(void);
/* Has `stream` wait for everything that was freed in the line. */
CUresult stream_fence_await(struct stream_fence *fence, CUstream stream);
/* A stream is about to be destroyed / a context is gone, and all that ran in it is over. */
void stream_fences_forget_stream(CUstream stream);
void stream_fences_forget_context(CUcontext context);
void stream_fences_after_fork(void);

#endif
