/* A job that alternates between the GPU and the CPU:
 *
 *   phases KERNELS BYTES WARM PHASES GPU_US CPU_US SEED
 *
 * Each phase changes every word of BYTES of GPU memory, keeps the GPU busy for GPU_US of its own
 * time in kernels of 1 ms, five of them queued at a time, and then does without it for CPU_US.
 * It says "ready" and waits for a line, works for WARM phases, the same again, works for PHASES, says
 * "done BEGIN_NS END_NS" of these and waits once more, and then checks every word. Exit code 0: all
 * are right. */
#include <stdio.h>
#include <stdlib.h>
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

struct job {
    CUdeviceptr at;
    u64 words, gpu_us, phase;
    struct timespec pause;
};

static void work(struct job *job, u64 phases)
{
    CUfunction step = kernel("step_u64");
    CUfunction busy = kernel("spin_us");
    for (u64 until = job->phase + phases; job->phase < until; job->phase++) {
        void *params[] = {&job->at, &job->words, &job->phase};
        launch(step, params);
        spin(busy, job->gpu_us);
        nanosleep(&job->pause, NULL);
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
    u64 number[8] = {0};
    if (argc != 8) {
        fprintf(stderr, "usage: phases KERNELS BYTES WARM PHASES GPU_US CPU_US SEED\n");
        return 2;
    }
    for (int i = 2; i < 8; i++) {
        number[i] = strtoull(argv[i], NULL, 10);
    }
    u64 seed = number[7];
    struct job job = {
        .words = number[2] / 8,
        .gpu_us = number[5],
        .pause = {(time_t)(number[6] / 1000000), (long)(number[6] % 1000000) * 1000},
    };
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoad, &module, argv[1]);
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc_v2, &job.at, job.words * 8);
    void *fill[] = {&job.at, &job.words, &seed};
    launch(kernel("fill_u64"), fill);
    MUST(cuStreamSynchronize, stream);
    printf("ready\n");
    wait_for_line();
    work(&job, number[3]);
    printf("ready\n");
    wait_for_line();
    u64 began = now_ns();
    work(&job, number[4]);
    printf("done %llu %llu\n", began, now_ns());
    wait_for_line();
    u64 wrong = check(job.at, job.words, seed, job.phase);
    printf("%llu words wrong\n", wrong);
    return wrong ? 3 : 0;
}
