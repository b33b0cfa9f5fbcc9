/* Work that the program submits to a stream: it is carried out, or captured into a graph. */
#ifndef SIMGPU_SUBMIT_H
#define SIMGPU_SUBMIT_H

#include "simgpu/stream/op.h"

/* Hands work over, which belongs to the stream from here on, whatever the result. */
CUresult sg_submit(CUstream stream, struct sg_op *op);
/* The same, and waits for it. Not allowed while the stream captures. */
CUresult sg_submit_and_wait(CUstream stream, struct sg_op *op);

#endif
