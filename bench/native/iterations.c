/* A program that counts what it gets done:  iterations KERNELS BYTES KERNEL_US SECONDS SEED
 *
 * Says "ready", waits for a line, and for so many seconds copies BYTES to the GPU, changes every
 * word there, keeps the GPU busy for KERNEL_US and copies them back. Prints the number of
 * iterations and the seconds they took; exit code 3 if a word came back wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "iterations: %s failed with error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(name, ...) must(name(__VA_ARGS__), #name)

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUstream stream;
    CUfunction step, spin;
    CUdeviceptr at;
    char line[16];
    void *words_at = NULL;
    if (argc != 6) {
        fprintf(stderr, "usage: iterations KERNELS BYTES KERNEL_US SECONDS SEED\n");
        return 2;
    }
    u64 count = strtoull(argv[2], NULL, 10) / 8;
    u64 kernel_us = strtoull(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    u64 seed = strtoull(argv[5], NULL, 10);
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoad, &module, argv[1]);
    MUST(cuModuleGetFunction, &step, module, "step_u64");
    MUST(cuModuleGetFunction, &spin, module, "spin_us");
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc_v2, &at, count * 8);
    MUST(cuMemHostAlloc, &words_at, count * 8, 0);
    u64 *words = words_at;
    for (u64 i = 0; i < count; i++) {
        words[i] = seed;
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        return 1;
    }
    u64 done = 0;
    u64 last = seed;
    double began = now_s();
    while (now_s() - began < seconds) {
        void *step_params[] = {&at, &count, &seed};
        void *spin_params[] = {&kernel_us};
        MUST(cuMemcpyHtoDAsync_v2, at, words, count * 8, stream);
        MUST(cuLaunchKernel, step, 64, 1, 1, 128, 1, 1, 0, stream, step_params, NULL);
        MUST(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, stream, spin_params, NULL);
        MUST(cuMemcpyDtoHAsync_v2, words, at, count * 8, stream);
        MUST(cuStreamSynchronize, stream);
        last = last * 6364136223846793005ull + seed + (count - 1);
        if (words[count - 1] != last) {
            return 3;
        }
        done++;
    }
    printf("%llu %.6f\n", done, now_s() - began);
    return 0;
}
