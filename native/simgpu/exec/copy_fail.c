#include "simgpu/exec/copy_fail.h"

#include "simgpu/inspect.h"

static struct {
    _Atomic int64_t left; /* copies that still succeed; below 0: copies that failed */
    int64_t count;
    CUresult result;
} failing[2];

CUDA_EXPORT void simgpu_fail_copies(int to_gpu, uint64_t after, uint64_t count, int result)
{
    failing[to_gpu != 0].count = (int64_t)count;
    failing[to_gpu != 0].result = (CUresult)result;
    failing[to_gpu != 0].left = (int64_t)after;
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
