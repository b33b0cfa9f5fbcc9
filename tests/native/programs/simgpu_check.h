/* What the test programs share: fail with the place and the reason. */
#ifndef SIMGPU_CHECK_H
#define SIMGPU_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#define EXPECT(want, call)                                                                        \
    do {                                                                                          \
        CUresult got_ = (call);                                                                   \
        if (got_ != (want)) {                                                                     \
            const char *name_ = "?";                                                              \
            cuGetErrorName(got_, &name_);                                                         \
            fprintf(stderr, "%s:%d: %s gave %s (%d), not %s\n", __FILE__, __LINE__, #call, name_, \
                    got_, #want);                                                                 \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

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
