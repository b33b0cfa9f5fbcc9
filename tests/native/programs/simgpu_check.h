/* What the test programs share: fail with the place and the reason. */
#ifndef SIMGPU_CHECK_H
#define SIMGPU_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"

static inline void check(int holds, const char *file, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
        exit(1);
    }
}

static inline void expect(CUresult want, CUresult got, const char *file, int line, const char *call)
{
    const char *name = "?", *wanted = "?";
    if (got != want) {
        cuGetErrorName(got, &name);
        cuGetErrorName(want, &wanted);
        fprintf(stderr, "%s:%d: %s gave %s, not %s\n", file, line, call, name, wanted);
        exit(1);
    }
}

#define CHECK(condition) check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)
#define EXPECT(want, call) expect(want, call, __FILE__, __LINE__, #call)
#define OK(call) EXPECT(CUDA_SUCCESS, call)

/* The first GPU's primary context, current. */
static inline CUcontext begin(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return context;
}

/* A kernel of kernels.elf, whose path is in KERNELS. */
static inline CUfunction kernel(const char *name)
{
    static CUmodule module;
    CUfunction function;
    if (!module) {
        OK(cuModuleLoad(&module, getenv("KERNELS")));
    }
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

#define LAUNCH(function, stream, ...) \
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){__VA_ARGS__}, NULL))

#endif
