/* How the work of a stream is carried out. */
#ifndef SIMGPU_STREAM_EXEC_H
#define SIMGPU_STREAM_EXEC_H

#include "simgpu/stream/op.h"

extern const struct sg_op_kind sg_kind_kernel;
extern const struct sg_op_kind sg_kind_copy;
extern const struct sg_op_kind sg_kind_memset;
extern const struct sg_op_kind sg_kind_host;
extern const struct sg_op_kind sg_kind_callback;
extern const struct sg_op_kind sg_kind_free;     /* op->address */
extern const struct sg_op_kind sg_kind_prefetch; /* managed memory */

/* Runs `work`. An access to unmapped memory sets the sticky error of the stream's context. */
void sg_run_guarded(CUstream stream, void (*work)(void *), void *argument);

#endif
