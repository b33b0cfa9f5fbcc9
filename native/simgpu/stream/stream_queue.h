/* The work that waits in a stream, and the thread that carries it out. */
#ifndef SIMGPU_STREAM_QUEUE_H
#define SIMGPU_STREAM_QUEUE_H

#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

/* Puts work into the stream's queue and takes it over, also when it fails. It ignores captures; sg_submit
 * checks them. `number` gets the number of the work. */
CUresult sg_stream_enqueue(CUstream stream, struct sg_op *op, uint64_t *number);

#endif
