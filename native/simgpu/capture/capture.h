/* Stream capture: work that is written down into a graph instead of being carried out. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/event.h"
#include "simgpu/stream/op.h"

/* Takes the work down as a node that follows what the stream captured last. */
CUresult sg_capture_op(CUstream stream, struct sg_op *op);

/* A stream outside waits for an event recorded inside, or the other way round. */
CUresult sg_capture_wait(CUstream stream, struct sg_record *record);
CUresult sg_capture_record(CUstream stream, struct sg_record *record);

/* What the stream captures next comes after these nodes. */
void sg_capture_follow(CUstream stream, const CUgraphNode *nodes, size_t count);

/* Begins and ends; `graph` NULL: a new one. */
CUresult sg_capture_begin(CUstream stream, CUgraph graph, const CUgraphNode *nodes, size_t count,
                          CUstreamCaptureMode mode);
CUresult sg_capture_end(CUstream stream, CUgraph *out);
/* A capturing stream is destroyed. */
void sg_capture_abandon(CUstream stream);

#endif
