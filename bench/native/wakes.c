/* A server that is asked seldom:  wakes KERNELS BYTES
 *
 * Fills BYTES and prints "ready". For each line of stdin it launches a short kernel, waits for its end, and prints how
 * many ns the call that launched it took. Without KERNELS ("-") it only has the memory. Exit code 0: in the end every
 * byte is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

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

static u64 wrong_words(CUdeviceptr at, u64 words)
{
    u64 wrong = 0, *back = malloc(words * 8 + 8);
    MUST(cuMemcpyDtoH_v2(back, at, words * 8));
    for (u64 i = 0; i < words; i++) {
        wrong += back[i] != filled(i);
    }
    free(back);
    return wrong;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr at;
    char line[16];
    u64 seed = 7, us = 10;
    if (argc != 3) {
        fprintf(stderr, "usage: wakes KERNELS BYTES\n");
        return 2;
    }
    int works = strcmp(argv[1], "-") != 0;
    u64 words = strtoull(argv[2], NULL, 10) / 8;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&at, words * 8));
    if (works) {
        MUST(cuModuleLoad(&module, argv[1]));
        launch("fill_u64", (void *[]){&at, &words, &seed});
        MUST(cuCtxSynchronize());
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        u64 began = now_ns();
        launch("spin_us", (void *[]){&us});
        u64 returned = now_ns();
        MUST(cuCtxSynchronize());
        printf("%llu\n", returned - began);
        fflush(stdout);
    }
    return works && wrong_words(at, words) ? 3 : 0;
}
