/* The program's streams, and whether anything that was submitted to them is unfinished.
 *
 * Waiting for a context, for a stream that captures, or for the legacy stream while a blocking one
 * captures would end a capture. Where one is open, each stream that does not take part is asked by
 * itself; what was submitted earlier to one that does is known by an event recorded before it joined.
 */
#ifndef MOIETY_SHIM_GATE_STREAMS_H
#define MOIETY_SHIM_GATE_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"

/* Held by a thread while it makes a stream join or leave a capture, or destroys a stream. */
extern struct lock streams_lock;

/* A stream was created in the current context; is about to be destroyed; is gone with its
 * context. */
void streams_add(CUstream stream);
void streams_remove(CUstream stream);
void streams_forget_context(CUcontext context);

/* Takes streams_lock for a capture that begins. Waits first until no thread waits for a context,
 * but only some milliseconds: after that each such thread is inside the driver. */
void streams_lock_to_capture(void);
/* With streams_lock: the stream is about to take part in a capture. */
void streams_will_capture(CUstream stream);

/* Waits for all that was submitted in the current context. False, with nothing done: a capture is open. */
bool streams_synchronise(CUresult *result);
/* Waits, while a capture is open, until nothing that was submitted in the current context is unfinished but what captures
 * hold. False: it was not over in time. */
bool streams_await_uncaptured(CUcontext context, uint64_t patience_ns);
/* Control thread, with this context current and the gate closed: returns when nothing submitted in it
 * is unfinished but what captures hold, or when the gate was opened again. */
void streams_drain(CUcontext context);

/* Work was submitted to the calling thread's own default stream, which no other thread can
 * query. */
void streams_note_own(void);
static inline void streams_note(CUstream stream)
{
    if (__builtin_expect(stream == CU_STREAM_PER_THREAD, 0)) {
        streams_note_own();
    }
}

void streams_after_fork(void);

#endif
