/* Stream capture: work that a stream gets is added to a graph instead of being carried out. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/event.h"
#include "simgpu/stream/op.h"

/* Adds the work to the capture's graph, behind the nodes that the stream captured last. Takes the work
 * over. */
CUresult sg_capture_op(CUstream stream, struct sg_op *op);

/* Makes work that allocates memory in the capture's graph (graph/graph_memory.h), behind what the stream captured
 * last. */
CUresult sg_capture_alloc_op(CUstream stream, struct sg_op **op, unsigned gpu, size_t bytes,
                             CUdeviceptr *address);

/* Makes a stream wait for a record where the stream or the record belongs to a capture: the stream joins
 * it. */
CUresult sg_capture_wait(CUstream stream, struct sg_record *record);
CUresult sg_capture_record(CUstream stream, struct sg_record *record);

/* Makes what the stream captures next depend on these nodes. */
void sg_capture_follow(CUstream stream, const CUgraphNode *nodes, size_t count);

/* Begins a capture into `graph`, or into a new graph if it is NULL. */
CUresult sg_capture_begin(CUstream stream, CUgraph graph, const CUgraphNode *nodes, size_t count,
                          CUstreamCaptureMode mode);
CUresult sg_capture_end(CUstream stream, CUgraph *out);
/* Ends the part of a stream that is destroyed while it captures. The capture ends with its origin. */
void sg_capture_abandon(CUstream stream);

#endif
