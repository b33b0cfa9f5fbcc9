/* Copies that fail because a test asked for it (simgpu_fail_copies). */
#ifndef SIMGPU_COPY_FAIL_H
#define SIMGPU_COPY_FAIL_H

#include "simgpu/stream/op.h"

/* Makes `count` copies in one direction (SG_H2D or SG_D2H) return `result`, after `after` that succeed. */
void sg_copy_fail_next(enum sg_direction direction, uint64_t after, uint64_t count,
                       CUresult result);
/* The result of the next copy in this direction. */
CUresult sg_copy_failure(enum sg_direction direction);

#endif
