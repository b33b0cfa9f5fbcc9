/* A program of which a part changes while it works:  server KERNELS KEPT CHANGED SECONDS ROUNDS
 *
 * Fills KEPT bytes that it never writes again, and CHANGED bytes of which each round writes a word in every 4 KiB.
 * It runs for SECONDS, or for ROUNDS if that is not 0. Whenever a round took more than 3 ms to begin it prints when
 * the one before it had ended and when it was let through, in ns of CLOCK_MONOTONIC; the last line is "took NS".
 * Exit code 0: in the end every byte is right. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#define SPIN_US 200ull
#define GAP_NS 3000000ull
#define STRIDE 512ull

static CUmodule module;

static void launch(const char *name, void **params)
{
    CUfunction kernel;
    MUST(cuModuleGetFunction(&kernel, module, name));
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* As fill_u64 of simgpu's kernels. */
static u64 filled(u64 i)
{
    i += 7 + 0x9e3779b97f4a7c15ull;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ull;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebull;
    return i ^ (i >> 31);
}

static u64 wrong_words(CUdeviceptr at, u64 words, u64 rounds)
{
    u64 wrong = 0, *back = malloc(words * 8 + 8);
    MUST(cuMemcpyDtoH_v2(back, at, words * 8));
    for (u64 i = 0; i < words; i++) {
        wrong += back[i] != filled(i) + (i % STRIDE ? 0 : rounds);
    }
    free(back);
    return wrong;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr kept, changed;
    u64 us = SPIN_US, seed = 7, stride = STRIDE, rounds = 0;
    if (argc != 6) {
        fprintf(stderr, "usage: server KERNELS KEPT CHANGED SECONDS ROUNDS\n");
        return 2;
    }
    u64 kept_words = strtoull(argv[2], NULL, 10) / 8, words = strtoull(argv[3], NULL, 10) / 8;
    u64 most = strtoull(argv[5], NULL, 10);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuMemAlloc_v2(&kept, kept_words * 8));
    MUST(cuMemAlloc_v2(&changed, words * 8));
    launch("fill_u64", (void *[]){&kept, &kept_words, &seed});
    launch("fill_u64", (void *[]){&changed, &words, &seed});
    MUST(cuCtxSynchronize());
    u64 began = now_ns(), end = began + strtoull(argv[4], NULL, 10) * 1000000000ull;
    for (u64 before = began; most ? rounds < most : before < end; rounds++) {
        launch("spin_us", (void *[]){&us});
        u64 now = now_ns();
        if (now - before > GAP_NS) {
            printf("%llu %llu\n", before, now);
            fflush(stdout);
        }
        launch("touch_u64", (void *[]){&changed, &words, &stride});
        MUST(cuCtxSynchronize());
        before = now_ns();
    }
    printf("took %llu\n", now_ns() - began);
    u64 wrong = wrong_words(kept, kept_words, 0) + wrong_words(changed, words, rounds);
    return wrong ? 3 : 0;
}
