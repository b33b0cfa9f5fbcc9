/* A program that always has work for the GPU:  busy KERNELS SPIN_US AHEAD BYTES
 *
 * Fills BYTES of GPU memory, prints "ready", and keeps between AHEAD and twice AHEAD kernels queued that
 * take SPIN_US each, until it is ended. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUevent ended[2];
    CUdeviceptr at;
    if (argc != 5) {
        fprintf(stderr, "usage: busy KERNELS SPIN_US AHEAD BYTES\n");
        return 2;
    }
    u64 us = strtoull(argv[2], NULL, 10), ahead = strtoull(argv[3], NULL, 10);
    u64 bytes = strtoull(argv[4], NULL, 10);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuModuleGetFunction(&spin, module, "spin_us"));
    MUST(cuMemAlloc_v2(&at, bytes));
    MUST(cuMemsetD8_v2(at, 1, bytes));
    MUST(cuEventCreate(&ended[0], 0));
    MUST(cuEventCreate(&ended[1], 0));
    puts("ready");
    fflush(stdout);
    for (unsigned turn = 0;; turn ^= 1) {
        MUST(cuEventSynchronize(ended[turn]));
        for (u64 i = 0; i < ahead; i++) {
            MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&us}, NULL));
        }
        MUST(cuEventRecord(ended[turn], NULL));
    }
}
