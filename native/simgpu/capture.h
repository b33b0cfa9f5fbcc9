/* Stream capture: work that is written down into a graph instead of being carried out.
 *
 * A call can be refused for one of two reasons. It is unsafe: it does something that a graph could not
 * repeat (allocating, loading code), so the mode of the capture and that of the calling thread decide. Or
 * it conflicts: it asks or waits for what has not been submitted (a stream that captures, its context, an
 * event recorded there), which is refused in every mode. Either way the capture is invalid from then on.
 */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "simgpu/stream.h"

struct sg_capture {
    struct sg_capture *next; /* of all open ones */
    int refs, open, invalid;
    int into_given; /* into a graph that the program made, and that stays its own */
    uint64_t id;
    CUgraph graph; /* NULL once it was handed out */
    CUstreamCaptureMode mode;
    CUstream origin;
    CUstream members; /* all streams that take part, origin included */
    pthread_t thread;
    CUgraphNode *loose; /* what streams captured last that were destroyed meanwhile */
    size_t loose_count;
};

/* Takes the work down as a node that follows what the stream captured last. */
CUresult sg_capture_op(CUstream stream, struct sg_op *op);
/* The same for a node that is in the graph already. */
void sg_capture_node(CUstream stream, CUgraphNode node);

/* A call that a capture does not allow: invalidates it. Returns `why`. */
CUresult sg_capture_refuse(CUstream stream, CUresult why);

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
/* An event recorded in a capture is asked for: that capture is invalid, if it is still open. */
CUresult sg_capture_forbids_record(const struct sg_record *record);

/* A stream outside waits for an event recorded inside, or the other way round. */
CUresult sg_capture_wait(CUstream stream, struct sg_record *record);
CUresult sg_capture_record(CUstream stream, struct sg_record *record);
void sg_capture_unref(struct sg_capture *capture);

/* What the stream captures next comes after these nodes. */
void sg_capture_follow(CUstream stream, const CUgraphNode *nodes, size_t count);

/* Begins and ends; `graph` NULL: a new one. */
CUresult sg_capture_begin(CUstream stream, CUgraph graph, const CUgraphNode *nodes, size_t count,
                          CUstreamCaptureMode mode);
CUresult sg_capture_end(CUstream stream, CUgraph *out);
/* A capturing stream is destroyed. */
void sg_capture_abandon(CUstream stream);
/* Whether a capture is writing into the graph. */
int sg_capture_uses(CUgraph graph);

CUstreamCaptureMode sg_capture_exchange_mode(CUstreamCaptureMode mode);

#endif
