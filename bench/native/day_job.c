/* A job of a day in a pool: it says when it began, has some memory of each of its GPUs, and ends
 * after SECONDS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda/cuda_calls.h"

static double now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double ends = now(CLOCK_MONOTONIC) + (argc == 2 ? atof(argv[1]) : 0);
    printf("%.6f\n", now(CLOCK_REALTIME));
    fflush(stdout);
    int count = 0;
    if (cuInit(0) || cuDeviceGetCount(&count)) {
        return 1;
    }
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CUcontext context;
        CUdeviceptr at;
        if (cuDeviceGet(&device, i) || cuDevicePrimaryCtxRetain(&context, device) ||
            cuCtxSetCurrent(context) || cuMemAlloc_v2(&at, 1 << 20)) {
            return 1;
        }
    }
    double left = ends - now(CLOCK_MONOTONIC);
    if (left > 0) {
        struct timespec rest = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&rest, NULL);
    }
    return 0;
}
