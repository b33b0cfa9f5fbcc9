/* Kernel launches as work. */
#ifndef SIMGPU_LAUNCH_H
#define SIMGPU_LAUNCH_H

#include "simgpu/stream/op.h"

/* Makes a launch as work and copies its parameters. */
CUresult sg_launch_op(struct sg_op **out, CUfunction function, const unsigned grid[3],
                      const unsigned block[3], unsigned shared, void **params, void **extra);

#endif
