#include "simgpu/exec/copy_fail.h"

static struct {
    _Atomic int64_t left; /* copies that still succeed; below 0: copies that failed */
    int64_t count;
    CUresult result;
} failing[2];

void sg_copy_fail_next(enum sg_direction direction, uint64_t after, uint64_t count, CUresult result)
{
    int way = direction == SG_H2D;
    failing[way].count = (int64_t)count;
    failing[way].result = result;
    failing[way].left = (int64_t)after;
}

CUresult sg_copy_failure(enum sg_direction direction)
{
    if (direction != SG_H2D && direction != SG_D2H) {
        return CUDA_SUCCESS;
    }
    int way = direction == SG_H2D;
    int64_t left = failing[way].count ? --failing[way].left : 0;
    return left < 0 && -left <= failing[way].count ? failing[way].result : CUDA_SUCCESS;
}
