/* Memory that simgpu's kernels fill, and whether it is still what it has to be. */
#ifndef MOIETY_BENCH_FILLED_H
#define MOIETY_BENCH_FILLED_H

#include "bench.h"

#define FILLED_SEED 7ull /* what fill_u64 gets */

static inline void launch(CUmodule module, const char *name, void **params)
{
    CUfunction kernel;
    MUST(cuModuleGetFunction(&kernel, module, name));
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* As fill_u64 of simgpu's kernels. */
static inline u64 filled(u64 i)
{
    i += FILLED_SEED + 0x9e3779b97f4a7c15ull;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ull;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebull;
    return i ^ (i >> 31);
}

/* The number of words that are not as filled; each `stride`th of them has grown by `rounds`. */
static inline u64 wrong_words(CUdeviceptr at, u64 words, u64 stride, u64 rounds)
{
    u64 wrong = 0, *back = malloc(words * 8 + 8);
    MUST(cuMemcpyDtoH_v2(back, at, words * 8));
    for (u64 i = 0; i < words; i++) {
        wrong += back[i] != filled(i) + (i % stride ? 0 : rounds);
    }
    free(back);
    return wrong;
}

#endif
