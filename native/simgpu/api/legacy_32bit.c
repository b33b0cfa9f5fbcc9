/* Calls from before CUDA 3.2, in which sizes have 32 bits. A larger size becomes the largest. */
#include "simgpu/base/entry.h"

static unsigned int in_32_bits(size_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice dev)
{
    return cuCtxCreate_v2(context, flags, dev);
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t total;
    SG_TRY(cuDeviceTotalMem_v2(&total, dev));
    if (!bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = in_32_bits(total);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *available, unsigned int *total)
{
    size_t left;
    size_t all;
    SG_TRY(cuMemGetInfo_v2(&left, &all));
    if (!available || !total) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *available = in_32_bits(left);
    *total = in_32_bits(all);
    return CUDA_SUCCESS;
}
