#include "simgpu/exec/launch_fail.h"

#include <stdio.h>
#include <string.h>

static struct {
    char kernel[128];
    _Atomic int64_t left; /* launches that still succeed; below 0: launches that failed */
    int64_t count;
    CUresult result;
} failing;

void sg_launch_fail_next(const char *kernel, uint64_t after, uint64_t count, CUresult result)
{
    snprintf(failing.kernel, sizeof(failing.kernel), "%s", kernel);
    failing.count = (int64_t)count;
    failing.result = result;
    failing.left = (int64_t)after;
}

CUresult sg_launch_failure(const char *kernel)
{
    if (!failing.count || strcmp(kernel, failing.kernel) != 0) {
        return CUDA_SUCCESS;
    }
    int64_t left = --failing.left;
    return left < 0 && -left <= failing.count ? failing.result : CUDA_SUCCESS;
}
