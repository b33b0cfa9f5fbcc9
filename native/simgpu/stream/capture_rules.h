/* The captures that are open, and what they do not allow.
 *
 * A call can be refused for one of two reasons. It is unsafe: it does something that a graph could not
 * repeat (allocating, loading code), so the mode of the capture and that of the calling thread decide. Or
 * it conflicts: it asks or waits for what has not been submitted (a stream that captures, its context, an
 * event recorded there), which is refused in every mode. Either way the capture is invalid from then on.
 */
#ifndef SIMGPU_CAPTURE_RULES_H
#define SIMGPU_CAPTURE_RULES_H

#include "simgpu/stream/stream.h"

struct sg_capture {
    struct sg_capture *next; /* of all open ones */
    int refs, open, invalid;
    int into_given; /* into a graph that the program made, and that stays its own */
    uint64_t id;
    CUgraph graph; /* NULL once it is closed */
    CUstreamCaptureMode mode;
    CUstream origin;
    CUstream members; /* all streams that take part, origin included */
    pthread_t thread;
    CUgraphNode *loose; /* what streams captured last that were destroyed meanwhile */
    size_t loose_count;
};

struct sg_captures {
    pthread_mutex_t lock; /* of what they are, who takes part, and whether they are still valid */
    struct sg_capture *open;
    unsigned count; /* read without the lock where none is the common case */
    uint64_t next_id;
};
extern struct sg_captures sg_captures;

void sg_capture_ref(struct sg_capture *capture);
void sg_capture_unref(struct sg_capture *capture);

/* A call that a capture does not allow: invalidates it. Returns `why`. */
CUresult sg_capture_refuse(CUstream stream, CUresult why);
/* The same with the lock held. */
CUresult sg_captures_refuse(CUstream stream, CUresult why);

/* CUDA_SUCCESS, unless the calling thread may not do now what is unsafe. */
CUresult sg_capture_forbids(void);
/* The same for a call that waits for all of a context. */
CUresult sg_capture_forbids_context(CUcontext context);
/* The legacy stream may not be used while one that it waits for captures. */
CUresult sg_capture_forbids_legacy(CUstream stream);
/* Whether that is so, without any harm. */
int sg_capture_blocks_legacy(CUstream stream);
/* A stream that captures, where the capture is invalid. */
CUresult sg_capture_check(CUstream stream);
/* An event is asked for that was recorded in a capture, or (NULL) in none: that capture is invalid, if it
 * is still open. */
CUresult sg_capture_forbids_query(struct sg_capture *capture);

/* Whether a capture is writing into the graph. */
int sg_capture_uses(CUgraph graph);

CUstreamCaptureMode sg_capture_exchange_mode(CUstreamCaptureMode mode);

#endif
