/* The work that waits in a stream, and the thread that carries it out. */
#ifndef SIMGPU_STREAM_QUEUE_H
#define SIMGPU_STREAM_QUEUE_H

#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

/* Hands work over, which belongs to the stream from here on, whatever the result. Looks at no capture:
 * sg_submit does. `number` gets what the stream's `completed` reaches when the work is done. */
CUresult sg_stream_enqueue(CUstream stream, struct sg_op *op, uint64_t *number);

#endif
