/* Streams: each carries out its work in order, on a thread of its own.
 *
 * Work is numbered in each stream; `completed` is the number of the last that is done. Work that waits for
 * another stream waits for a pair (stream, number), and only for work that was submitted earlier, so there
 * is no deadlock.
 */
#ifndef SIMGPU_STREAM_H
#define SIMGPU_STREAM_H

#include "simgpu/context/context.h"

struct sg_capture;
struct sg_op;

struct CUstream_st {
    CUcontext context;
    CUstream next; /* in the context's list */
    int refs;      /* of its handle, its thread and all that waits for it */
    unsigned flags;
    int priority;
    int legacy, per_thread, stopping, started;
    int working; /* it counts among those with work for the compute units */
    uint64_t id;
    uint64_t submitted, completed;
    uint64_t end_ns; /* when its last work ended, as the GPU counts time */
    struct sg_op *first, **last;
    pthread_cond_t work;
    pthread_t thread;
    struct sg_capture *capture; /* NULL unless it captures */
    CUstream next_member;       /* of its capture */
    CUgraphNode *captured;      /* what the next captured work follows */
    size_t captured_count;
    CUgraphEdgeData *captured_edges; /* all are plain edges */
};

CUstream sg_stream_new(CUcontext context, unsigned flags, int priority);
void sg_stream_ref(CUstream stream);
void sg_stream_unref(CUstream stream);

/* Finds the stream of a handle, also of the default streams' handles. */
CUresult sg_stream_of(CUstream handle, CUstream *out);

void sg_stream_wait(CUstream stream, uint64_t number);
int sg_stream_done(CUstream stream, uint64_t number);

/* Ends the thread after all work in the queue, and releases the handle's reference. */
void sg_stream_close(CUstream stream);

/* Takes the stream out of its context's list; the context is locked. */
void sg_stream_unlist(CUstream stream);

/* Waits until all is done that was submitted to the context's streams so far. */
CUresult sg_context_drain(CUcontext context);

#endif
