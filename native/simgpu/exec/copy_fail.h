/* Copies that fail because a test asked for it (simgpu_fail_copies). */
#ifndef SIMGPU_COPY_FAIL_H
#define SIMGPU_COPY_FAIL_H

#include "simgpu/stream/op.h"

/* The result of the next copy in this direction. */
CUresult sg_copy_failure(enum sg_direction direction);

#endif
