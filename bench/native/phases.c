/* A job that alternates between the GPU and the CPU:
 *
 *   phases KERNELS BYTES PHASES GPU_US CPU_US SEED [managed]
 *
 * Each phase changes every word of BYTES of GPU memory, keeps the GPU busy for GPU_US of its own
 * time in kernels of 1 ms, five of them queued at a time, and then does without it for CPU_US.
 * It says "ready" and waits for a line, works, says "done BEGIN_NS END_NS" and waits for another
 * line, and then checks every word. Exit code 0: all are right.
 * With `managed` it asks the driver for managed memory itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

#define KERNEL_US 1000u
#define QUEUED 5u

static CUstream stream;
static CUmodule module;

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "phases: %s failed with error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(name, ...) must(name(__VA_ARGS__), #name)

static CUfunction kernel(const char *name)
{
    CUfunction found;
    MUST(cuModuleGetFunction, &found, module, name);
    return found;
}

static void launch(CUfunction function, void **params)
{
    MUST(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static u64 now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

static void wait_for_line(void)
{
    char line[16];
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        exit(1);
    }
}

static void spin(CUfunction function, u64 left_us)
{
    for (unsigned queued = 1; left_us > 0; queued++) {
        u64 us = left_us < KERNEL_US ? left_us : KERNEL_US;
        void *params[] = {&us};
        launch(function, params);
        left_us -= us;
        if (queued % QUEUED == 0 || left_us == 0) {
            MUST(cuStreamSynchronize, stream);
        }
    }
}

static u64 check(CUdeviceptr at, u64 words, u64 seed, u64 phases)
{
    u64 *ks = malloc(phases * 8);
    u64 wrong = 0;
    CUdeviceptr device_ks, errors;
    for (u64 k = 0; ks && k < phases; k++) {
        ks[k] = k;
    }
    MUST(cuMemAlloc_v2, &device_ks, phases * 8);
    MUST(cuMemAlloc_v2, &errors, 8);
    MUST(cuMemcpyHtoD_v2, device_ks, ks, phases * 8);
    MUST(cuMemsetD8_v2, errors, 0, 8);
    void *params[] = {&at, &words, &seed, &device_ks, &phases, &errors};
    launch(kernel("check_u64"), params);
    MUST(cuStreamSynchronize, stream);
    MUST(cuMemcpyDtoH_v2, &wrong, errors, 8);
    free(ks);
    return wrong;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr at;
    if (argc < 7) {
        fprintf(stderr, "usage: phases KERNELS BYTES PHASES GPU_US CPU_US SEED [managed]\n");
        return 2;
    }
    u64 words = strtoull(argv[2], NULL, 10) / 8;
    u64 phases = strtoull(argv[3], NULL, 10);
    u64 gpu_us = strtoull(argv[4], NULL, 10);
    u64 cpu_us = strtoull(argv[5], NULL, 10);
    u64 seed = strtoull(argv[6], NULL, 10);
    struct timespec pause = {(time_t)(cpu_us / 1000000), (long)(cpu_us % 1000000) * 1000};
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoad, &module, argv[1]);
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    if (argc > 7 && !strcmp(argv[7], "managed")) {
        MUST(cuMemAllocManaged, &at, words * 8, CU_MEM_ATTACH_GLOBAL);
    } else {
        MUST(cuMemAlloc_v2, &at, words * 8);
    }
    void *fill[] = {&at, &words, &seed};
    launch(kernel("fill_u64"), fill);
    MUST(cuStreamSynchronize, stream);
    CUfunction step = kernel("step_u64");
    CUfunction busy = kernel("spin_us");
    printf("ready\n");
    wait_for_line();
    u64 began = now_ns();
    for (u64 phase = 0; phase < phases; phase++) {
        void *params[] = {&at, &words, &phase};
        launch(step, params);
        spin(busy, gpu_us);
        nanosleep(&pause, NULL);
    }
    printf("done %llu %llu\n", began, now_ns());
    wait_for_line();
    u64 wrong = check(at, words, seed, phases);
    printf("%llu words wrong\n", wrong);
    return wrong ? 3 : 0;
}
