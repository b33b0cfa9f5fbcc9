/* Copies that a test has go wrong (simgpu_fail_copies). */
#ifndef SIMGPU_COPY_FAIL_H
#define SIMGPU_COPY_FAIL_H

#include "simgpu/stream/op.h"

/* What the next copy of this direction returns. */
CUresult sg_copy_failure(enum sg_direction direction);

#endif
