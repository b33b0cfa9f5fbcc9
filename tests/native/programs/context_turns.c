/* A program with several contexts on one GPU, each with memory, that come and go.
 *
 *   context_turns KERNELS ROUNDS
 *
 * A context is destroyed with its memory, now and then after a silence in which that may have left.
 * SIGUSR1 has it stop after the round that it is in. Exit code 0: all words were right. */
#include <unistd.h>

#include "mistakes.h"

typedef unsigned long long u64;

#define ALIVE 4
#define BYTES (6 * MIB)

static const char *kernels;
static struct life {
    CUcontext context;
    CUdeviceptr at, small;
    u64 seed;
} lives[ALIVE];

static void fill(CUdeviceptr at, u64 bytes, u64 seed)
{
    CUmodule module;
    CUfunction kernel;
    u64 words = bytes / 8;
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&kernel, module, "fill_u64"));
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &words, &seed}, NULL));
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(module));
}

static u64 wrong_words(CUdeviceptr at, u64 bytes, u64 seed)
{
    u64 wrong = 0;
    u64 *words = malloc(bytes);
    OK(cuMemcpyDtoH_v2(words, at, bytes));
    for (u64 i = 0; i < bytes / 8; i++) {
        u64 x = seed + i + 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        wrong += words[i] != (x ^ (x >> 31));
    }
    free(words);
    return wrong;
}

static CUcontext make_context(u64 round)
{
    CUcontext made;
    CUctxCreateParams params = {0};
    if (round % 3 == 0) {
        OK(cuCtxCreate_v2(&made, 0, 0));
    } else if (round % 3 == 1) {
        OK(cuCtxCreate_v3(&made, NULL, 0, CU_CTX_SCHED_SPIN, 0));
    } else {
        OK(cuCtxCreate_v4(&made, &params, 0, 0));
    }
    return made;
}

static void be_born(struct life *life, u64 round)
{
    CUcontext now;
    life->context = make_context(round);
    life->seed = round * 1000;
    OK(cuMemAlloc_v2(&life->at, BYTES));
    OK(cuMemAlloc_v2(&life->small, 4096));
    fill(life->at, BYTES, life->seed);
    fill(life->small, 4096, life->seed);
    OK(cuCtxPopCurrent_v2(&now));
}

/* As old programs do: the context stays until it was detached from as often as it was made and attached to. */
static void detach(CUcontext context)
{
    CUcontext now;
    int least, greatest;
    OK(cuCtxPushCurrent_v2(context));
    OK(cuCtxAttach(&now, 0));
    OK(cuCtxDetach(context));
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuCtxPopCurrent_v2(&now));
    OK(cuCtxDetach(context));
}

static u64 die(struct life *life, u64 round)
{
    CUcontext now;
    u64 wrong = 0;
    if (round % 2 == 0) { /* from within, and seen from without: one GPU, one set of addresses */
        OK(cuCtxPushCurrent_v2(life->context));
        wrong = wrong_words(life->at, BYTES, life->seed);
        OK(cuCtxPopCurrent_v2(&now));
        wrong += wrong_words(life->small, 4096, life->seed);
    } else {
        usleep(20000); /* others have the GPU */
    }
    if (round % 3 == 0) {
        detach(life->context);
    } else {
        OK(cuCtxDestroy_v2(life->context));
    }
    return wrong + (cuMemFree_v2(life->at) != CUDA_ERROR_INVALID_VALUE);
}

/* The primary one has memory as well, and loses it when it is reset. */
static CUdeviceptr reset(CUcontext *primary, CUdeviceptr old)
{
    CUdeviceptr at;
    int active = 1;
    unsigned flags;
    OK(cuDevicePrimaryCtxRetain(primary, 0));
    OK(cuDevicePrimaryCtxRelease_v2(0)); /* it was retained twice */
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    if (!active || wrong_words(old, BYTES, 5)) {
        exit(3);
    }
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    OK(cuDevicePrimaryCtxRetain(primary, 0));
    OK(cuCtxSetCurrent(*primary));
    if (active || cuMemFree_v2(old) != CUDA_ERROR_INVALID_VALUE) {
        exit(4);
    }
    OK(cuMemAlloc_v2(&at, BYTES));
    fill(at, BYTES, 5);
    return at;
}

int main(int argc, char **argv)
{
    CUcontext primary;
    CUdeviceptr at;
    size_t before, after, total;
    u64 wrong = 0, rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
    kernels = argv[1];
    signal(SIGUSR1, mistakes_stop);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc_v2(&at, BYTES));
    fill(at, BYTES, 5);
    for (u64 i = 0; i < ALIVE; i++) {
        be_born(&lives[i], i);
    }
    for (u64 round = ALIVE; round < rounds && !mistakes_enough && !wrong; round++) {
        struct life *oldest = &lives[round % ALIVE];
        OK(cuMemGetInfo_v2(&before, &total));
        wrong += die(oldest, round);
        be_born(oldest, round);
        if (round % 5 == 0) {
            at = reset(&primary, at);
        }
        OK(cuMemGetInfo_v2(&after, &total));
        wrong += getenv("MOIETY_SOCKET") && before != after; /* without us it is everybody's */
    }
    printf("%llu words wrong\n", wrong);
    for (u64 i = 0; i < ALIVE; i++) {
        OK(cuCtxDestroy_v2(lives[i].context));
    }
    OK(cuDevicePrimaryCtxRelease_v2(0));
    return wrong ? 3 : 0;
}
