/* Stream capture: work that is written down into a graph instead of being carried out. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "simgpu/stream.h"

struct sg_capture {
    struct sg_capture *next; /* of all open ones */
    int refs, open, invalid;
    uint64_t id;
    CUgraph graph; /* NULL once it was handed out */
    CUstreamCaptureMode mode;
    CUstream origin;
    pthread_t thread;
};

/* Takes the work down as a node that follows what the stream captured last. */
CUresult sg_capture_op(CUstream stream, struct sg_op *op);

/* A call that a capture does not allow: invalidates it. Returns `why`. */
CUresult sg_capture_refuse(CUstream stream, CUresult why);

/* The calling thread may not do what could break a capture (allocating, synchronising a context) now. */
CUresult sg_capture_forbids(void);

/* A stream outside waits for an event recorded inside, or the other way round. */
CUresult sg_capture_wait(CUstream stream, struct sg_record *record);
CUresult sg_capture_record(CUstream stream, struct sg_record *record);
void sg_capture_unref(struct sg_capture *capture);

/* What the stream captures next comes after these nodes. */
void sg_capture_follow(CUstream stream, const CUgraphNode *nodes, size_t count);

/* The legacy stream may not be used while one that it waits for captures. */
CUresult sg_capture_forbids_legacy(CUstream stream);
/* A capturing stream is destroyed. */
void sg_capture_abandon(CUstream stream);

#endif
