/* Submits work to a stream, which carries it out or captures it into a graph. */
#ifndef SIMGPU_SUBMIT_H
#define SIMGPU_SUBMIT_H

#include "simgpu/stream/op.h"

/* Takes the work over, also when it fails. */
CUresult sg_submit(CUstream stream, struct sg_op *op);
/* Submits the work and waits until it is done. A stream that captures refuses it. */
CUresult sg_submit_and_wait(CUstream stream, struct sg_op *op);

#endif
