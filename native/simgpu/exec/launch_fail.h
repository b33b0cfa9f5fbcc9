/* Launches that fail because a test asked for it (simgpu_fail_launches). */
#ifndef SIMGPU_LAUNCH_FAIL_H
#define SIMGPU_LAUNCH_FAIL_H

#include <stdint.h>

#include "cuda/cuda_abi.h"

/* Makes `count` launches of the kernel of this name return `result`, after `after` that succeed. */
void sg_launch_fail_next(const char *kernel, uint64_t after, uint64_t count, CUresult result);
/* The result of the next launch of a kernel. */
CUresult sg_launch_failure(const char *kernel);

#endif
