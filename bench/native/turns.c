/* A program that always has work, and says when it could not do it:  turns KERNELS BYTES SECONDS
 *
 * Fills BYTES of GPU memory and then runs short kernels that take time only, one after the other.
 * Whenever a launch took more than 3 ms it prints when the work before it had ended and when it was
 * let through, in ns of CLOCK_MONOTONIC. Exit code 0: in the end every byte is right. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#define SPIN_US 200ull
#define GAP_NS 3000000ull

static void launch(CUmodule module, const char *name, void **params)
{
    CUfunction kernel;
    MUST(cuModuleGetFunction(&kernel, module, name));
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUdeviceptr at, wrong_at;
    u64 us = SPIN_US, seed = 7, none = 0, wrong = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: turns KERNELS BYTES SECONDS\n");
        return 2;
    }
    u64 words = strtoull(argv[2], NULL, 10) / 8;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuMemAlloc_v2(&at, words * 8));
    MUST(cuMemAlloc_v2(&wrong_at, 8));
    MUST(cuMemcpyHtoD_v2(wrong_at, &wrong, 8));
    launch(module, "fill_u64", (void *[]){&at, &words, &seed});
    MUST(cuCtxSynchronize());
    u64 end = now_ns() + strtoull(argv[3], NULL, 10) * 1000000000ull;
    for (u64 before = now_ns(); before < end;) {
        launch(module, "spin_us", (void *[]){&us});
        u64 now = now_ns();
        if (now - before > GAP_NS) {
            printf("%llu %llu\n", before, now);
        }
        MUST(cuCtxSynchronize());
        before = now_ns();
    }
    launch(module, "check_u64", (void *[]){&at, &words, &seed, &none, &none, &wrong_at});
    MUST(cuMemcpyDtoH_v2(&wrong, wrong_at, 8));
    return wrong ? 3 : 0;
}
