/* A worker most of whose memory does not change:  mostly_kept KERNELS BYTES ROUNDS GPU_MS CPU_MS SEED [CHECK_EVERY]
 *
 * The same arguments as demo/worker.c. It fills BYTES, changes the last eighth in each round, is on the GPU for GPU_MS,
 * and stops after ROUNDS or at SIGUSR1. Exit code 0: in the end every word is right. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "mostly_kept: %s failed with error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

static CUmodule module;
static volatile sig_atomic_t enough;

static void stop(int number)
{
    (void)number;
    enough = 1;
}

static void launch(const char *name, void **params)
{
    CUfunction kernel;
    MUST(cuModuleGetFunction(&kernel, module, name));
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* As fill_u64 of simgpu's kernels. */
static u64 filled(u64 i)
{
    i += 0x9e3779b97f4a7c15ull;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ull;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebull;
    return i ^ (i >> 31);
}

static u64 wrong_words(CUdeviceptr at, u64 words, u64 seed, u64 added)
{
    u64 wrong = 0, *back = malloc(words * 8 + 8);
    MUST(cuMemcpyDtoH_v2(back, at, words * 8));
    for (u64 i = 0; i < words; i++) {
        wrong += back[i] != filled(seed + i) + added;
    }
    free(back);
    return wrong;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr kept, changed;
    u64 rounds = 0, stride = 1;
    if (argc < 7) {
        fprintf(stderr, "usage: mostly_kept KERNELS BYTES ROUNDS GPU_MS CPU_MS SEED\n");
        return 2;
    }
    u64 all = strtoull(argv[2], NULL, 10) / 8, words = all / 8, kept_words = all - words;
    u64 most = strtoull(argv[3], NULL, 10), us = strtoull(argv[4], NULL, 10) * 1000;
    u64 seed = strtoull(argv[6], NULL, 10);
    signal(SIGUSR1, stop);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuMemAlloc_v2(&kept, kept_words * 8));
    MUST(cuMemAlloc_v2(&changed, words * 8));
    launch("fill_u64", (void *[]){&kept, &kept_words, &seed});
    launch("fill_u64", (void *[]){&changed, &words, &seed});
    for (; rounds < most && !enough; rounds++) {
        launch("touch_u64", (void *[]){&changed, &words, &stride});
        launch("spin_us", (void *[]){&us});
        MUST(cuCtxSynchronize());
    }
    u64 wrong = wrong_words(kept, kept_words, seed, 0) + wrong_words(changed, words, seed, rounds);
    MUST(cuMemFree_v2(kept));
    MUST(cuMemFree_v2(changed));
    printf("%llu words wrong\n", wrong);
    return wrong ? 3 : 0;
}
