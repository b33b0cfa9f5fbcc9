/* What the programs of the benchmarks have in common: a clock, and an end at the first error. */
#ifndef MOIETY_BENCH_H
#define MOIETY_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

static inline u64 now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

static inline void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: %s failed with error %d\n", program_invocation_short_name, what,
                (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

#endif
