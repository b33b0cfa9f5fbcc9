/* A tenant that has a context and some memory, and does nothing until its input ends. */
#include <stdio.h>

#include "cuda/cuda_calls.h"

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr at;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxSetCurrent(context) || cuMemAlloc_v2(&at, 1 << 20) || cuMemsetD8_v2(at, 1, 1 << 20) ||
        cuCtxSynchronize()) {
        return 1;
    }
    puts("idle");
    fflush(stdout);
    return getchar() == EOF ? 0 : 2;
}
