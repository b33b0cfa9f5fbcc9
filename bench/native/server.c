/* A program of which a part changes while it works:  server KERNELS KEPT CHANGED SECONDS ROUNDS SPIN_US
 *
 * Fills KEPT bytes that it never writes again, and CHANGED bytes of which each round writes a word in every 64 KiB,
 * after a kernel of SPIN_US. It runs for SECONDS, or for ROUNDS if that is not 0. Whenever a round took more than 3 ms to
 * begin it prints when the one before it had ended and when it was let through, in ns of simgpu's clock; the last line
 * is "took NS".
 * Exit code 0: in the end every byte is right. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "filled.h"
#include "simgpu/api/inspect.h"

#define GAP_NS 3000000ull
#define STRIDE 8192ull

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUdeviceptr kept, changed;
    u64 seed = FILLED_SEED, stride = STRIDE, rounds = 0;
    if (argc != 7) {
        fprintf(stderr, "usage: server KERNELS KEPT CHANGED SECONDS ROUNDS SPIN_US\n");
        return 2;
    }
    u64 kept_words = strtoull(argv[2], NULL, 10) / 8, words = strtoull(argv[3], NULL, 10) / 8;
    u64 most = strtoull(argv[5], NULL, 10), us = strtoull(argv[6], NULL, 10);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuMemAlloc_v2(&kept, kept_words * 8));
    MUST(cuMemAlloc_v2(&changed, words * 8));
    launch(module, "fill_u64", (void *[]){&kept, &kept_words, &seed});
    launch(module, "fill_u64", (void *[]){&changed, &words, &seed});
    MUST(cuCtxSynchronize());
    u64 began = simgpu_now_ns(), end = began + strtoull(argv[4], NULL, 10) * 1000000000ull;
    for (u64 before = began; most ? rounds < most : before < end; rounds++) {
        launch(module, "spin_us", (void *[]){&us});
        u64 now = simgpu_now_ns();
        if (now - before > GAP_NS) {
            printf("%llu %llu\n", before, now);
            fflush(stdout);
        }
        launch(module, "touch_u64", (void *[]){&changed, &words, &stride});
        MUST(cuCtxSynchronize());
        before = simgpu_now_ns();
    }
    printf("took %llu\n", simgpu_now_ns() - began);
    u64 wrong = wrong_words(kept, kept_words, 1, 0) + wrong_words(changed, words, STRIDE, rounds);
    return wrong ? 3 : 0;
}
