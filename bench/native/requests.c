/* An inference server:  requests KERNELS COUNT SEED
 *
 * At random times (30 ms apart on average) it does 5 ms of work on the GPU, five kernels in a row,
 * and prints how many ns that took from the moment it was asked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#define KERNELS 5
#define APART_NS 30e6

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUdeviceptr at;
    u64 us = 1000;
    if (argc != 4) {
        fprintf(stderr, "usage: requests KERNELS COUNT SEED\n");
        return 2;
    }
    srand48(strtol(argv[3], NULL, 10));
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuModuleGetFunction(&spin, module, "spin_us"));
    MUST(cuMemAlloc_v2(&at, 1 << 20));
    for (long i = strtol(argv[2], NULL, 10); i > 0; i--) {
        u64 apart_ns = (u64)(-APART_NS * log(1 - drand48()));
        struct timespec apart = {(time_t)(apart_ns / 1000000000), (long)(apart_ns % 1000000000)};
        nanosleep(&apart, NULL);
        u64 asked_ns = now_ns();
        for (int k = 0; k < KERNELS; k++) {
            MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&us}, NULL));
        }
        MUST(cuCtxSynchronize());
        printf("%llu\n", now_ns() - asked_ns);
    }
    return 0;
}
