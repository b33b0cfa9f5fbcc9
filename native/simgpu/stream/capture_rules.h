/* The open captures, and the calls that they forbid.
 *
 * A call is refused for one of two reasons. It is unsafe: a graph cannot repeat it (it allocates, or loads
 * code); then the mode of the capture and that of the calling thread decide. Or it conflicts: it asks or
 * waits for work that has not been submitted (a stream that captures, its context, an event recorded
 * there); every mode refuses it. Either way the capture becomes invalid.
 */
#ifndef SIMGPU_CAPTURE_RULES_H
#define SIMGPU_CAPTURE_RULES_H

#include "simgpu/stream/stream.h"

struct sg_capture {
    struct sg_capture *next; /* of all open ones */
    int refs, open, invalid;
    int into_given; /* the graph belongs to the program */
    uint64_t id;
    CUgraph graph; /* NULL once it is closed */
    CUstreamCaptureMode mode;
    CUstream origin;
    CUstream members; /* all streams that take part, origin included */
    pthread_t thread;
    CUgraphNode *loose; /* last nodes of streams that were destroyed meanwhile */
    size_t loose_count;
};

struct sg_captures {
    pthread_mutex_t lock; /* guards all captures and their members */
    struct sg_capture *open;
    unsigned count; /* read without the lock, because there is rarely one */
    uint64_t next_id;
};
extern struct sg_captures sg_captures;

void sg_capture_ref(struct sg_capture *capture);
void sg_capture_unref(struct sg_capture *capture);

/* Invalidates the capture of a stream after a call that it forbids. Returns `why`. */
CUresult sg_capture_refuse(CUstream stream, CUresult why);
/* The same; the caller holds the lock. */
CUresult sg_captures_refuse(CUstream stream, CUresult why);

/* Returns an error if an open capture forbids unsafe calls of this thread, and invalidates that capture. */
CUresult sg_capture_forbids(void);
/* The same for a call that waits for all work of a context. */
CUresult sg_capture_forbids_context(CUcontext context);
/* The same for the use of a legacy stream: a stream that it waits for may not capture. */
CUresult sg_capture_forbids_legacy(CUstream stream);
/* Returns whether it is forbidden, and invalidates nothing. */
int sg_capture_blocks_legacy(CUstream stream);
/* Returns an error if the stream's capture is invalid. */
CUresult sg_capture_check(CUstream stream);
/* Checks a query of an event that was recorded in this capture (NULL: in none). It invalidates the capture. */
CUresult sg_capture_forbids_query(struct sg_capture *capture);

/* Returns whether an open capture adds nodes to the graph. */
int sg_capture_uses(CUgraph graph);

CUstreamCaptureMode sg_capture_exchange_mode(CUstreamCaptureMode mode);

#endif
