/* Small programs about what the shim does at the same time, one for each word:
 *     shim_races WORD KERNELS
 *
 * Each says "ready" where whoever drives the test may do something meanwhile, reads a line, goes on,
 * and ends with exit code 0 if everything was as the driver's documentation has it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)
static void expect(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "shim_races.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect((condition) != 0, __LINE__, #condition)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

#ifdef EARLY_LIBRARY
/* A library that uses the driver before the program begins, and before the shim's constructor. */
__attribute__((constructor)) static void early(void) { OK(cuInit(0)); }
#else

static CUdevice device;
static CUcontext context;
static const char *kernels;

static void begin(void)
{
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}

static void pause_for_test(void)
{
    char line[16];
    printf("ready\n");
    fflush(stdout);
    EXPECT(fgets(line, sizeof(line), stdin));
}

static CUfunction kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

/* On a stream of its own: 100 ms of nothing, then a look at all of the memory. */
static CUstream use_for_long(CUdeviceptr at, size_t bytes)
{
    unsigned long long us = 100000, words = bytes / 8, stride = 1;
    CUfunction spin = kernel("spin_us");
    CUfunction touch = kernel("touch_u64");
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&us}, NULL));
    OK(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &words, &stride}, NULL));
    return stream;
}

static void after_constructor(void)
{
    CUdeviceptr at;
    begin();
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    OK(cuMemsetD8_v2(at, 1, 4 * MIB));
    OK(cuMemFree_v2(at));
}

static void free_elsewhere(void)
{
    CUcontext other;
    CUdeviceptr at;
    begin();
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    OK(cuCtxCreate_v2(&other, 0, device));
    OK(cuCtxSetCurrent(context));
    CUstream stream = use_for_long(at, 4 * MIB);
    OK(cuCtxSetCurrent(other));
    OK(cuMemFree_v2(at));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamSynchronize(stream));
}

static void free_in_capture(void)
{
    CUdeviceptr at, small;
    CUstream stream;
    CUgraph graph;
    begin();
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    OK(cuMemAlloc_v2(&small, 100));
    CUstream busy = use_for_long(at, 4 * MIB);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemFree_v2(at));
    OK(cuMemFree_v2(small));
    EXPECT(cuMemFree_v2(at) == CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamSynchronize(busy));
    OK(cuCtxSynchronize());
}

static void end_of_fork(void)
{
    CUstream origin, branch;
    CUevent event;
    CUgraph graph;
    CUdeviceptr at;
    begin();
    OK(cuMemAlloc_v2(&at, MIB));
    OK(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&branch, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, origin));
    OK(cuStreamWaitEvent(branch, event, 0));
    EXPECT(cuStreamEndCapture(branch, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    pause_for_test(); /* the capture is still open: a revoke waits */
    cuStreamEndCapture(origin, &graph);
    OK(cuMemsetD8_v2(at, 1, MIB)); /* waits for the lease */
}

static void *fork_and_return(void *unused)
{
    int status;
    CUstream stream;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8_v2(*(CUdeviceptr *)unused, 1, MIB)); /* takes a slot */
    pid_t child = fork();
    if (child == 0) {
        return NULL; /* the last thread of the child: it ends with 0 */
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return NULL;
}

static void fork_in_thread(void)
{
    pthread_t thread;
    CUdeviceptr at;
    begin();
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    pthread_create(&thread, NULL, fork_and_return, &at);
    pthread_join(thread, NULL);
}

static void *come_and_go(void *unused)
{
    CUcontext own;
    for (int i = 0; i < 150; i++) {
        OK(cuCtxCreate_v2(&own, 0, 0));
        OK(cuCtxDestroy_v2(own));
    }
    return unused;
}

static void contexts(void)
{
    pthread_t threads[3];
    OK(cuInit(0));
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, come_and_go, NULL);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void destroy_in_move(void)
{
    CUcontext first;
    CUdeviceptr at;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&first, 0, 0));
    begin();
    OK(cuMemAlloc_v2(&at, 32 * MIB));
    OK(cuMemsetD8_v2(at, 6, 32 * MIB));
    pause_for_test(); /* it is being moved out, with this context */
    OK(cuCtxDestroy_v2(first));
    OK(cuCtxSetCurrent(context));
    unsigned char byte = 0;
    OK(cuMemcpyDtoH_v2(&byte, at + 31 * MIB, 1));
    EXPECT(byte == 6);
}

static void *retain_for_ever(void *unused)
{
    for (;;) {
        CUdeviceptr at;
        CUcontext own;
        OK(cuCtxCreate_v2(&own, 0, 0)); /* says so to the agent, and asks nothing */
        OK(cuCtxDestroy_v2(own));
        OK(cuCtxSetCurrent(context));
        OK(cuMemAlloc_v2(&at, 4 * MIB));
        OK(cuMemFree_v2(at));
    }
    return unused;
}

static int pooled;

/* Allocates in a context that goes meanwhile. */
static void *allocate_in(void *of)
{
    CUdeviceptr at = 0;
    CUcontext own = of;
    OK(cuCtxSetCurrent(own));
    CUresult result = pooled ? cuMemAllocAsync(&at, 24 * MIB, NULL) : cuMemAlloc_v2(&at, 24 * MIB);
    EXPECT(result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(at == 0);
    return NULL;
}

/* The last context is destroyed while another thread waits for memory in it. */
static void orphans(void)
{
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        CUcontext own;
        CUdeviceptr at;
        unsigned word = 0;
        pooled = round;
        OK(cuCtxCreate_v2(&own, 0, device));
        pause_for_test();
        EXPECT(pthread_create(&thread, NULL, allocate_in, own) == 0);
        pause_for_test(); /* it has asked */
        OK(cuCtxDestroy_v2(own));
        pause_for_test(); /* now it is answered */
        EXPECT(pthread_join(thread, NULL) == 0);
        OK(cuCtxCreate_v2(&own, 0, device));
        OK(cuMemAlloc_v2(&at, 24 * MIB));
        OK(cuMemsetD32_v2(at, 7, 4));
        OK(cuMemcpyDtoH_v2(&word, at, 4));
        EXPECT(word == 7);
        OK(cuMemFree_v2(at));
        OK(cuCtxDestroy_v2(own));
    }
}

static void agents_come_and_go(void)
{
    pthread_t thread;
    begin();
    for (int i = 0; i < 6; i++) {
        pthread_create(&thread, NULL, retain_for_ever, NULL);
    }
    pause_for_test();
    _exit(0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*run)(void);
    } words[] = {{"early", after_constructor}, {"elsewhere", free_elsewhere},
                 {"capture", free_in_capture}, {"unmatched", end_of_fork},
                 {"fork", fork_in_thread},     {"contexts", contexts},
                 {"destroy", destroy_in_move}, {"reconnect", agents_come_and_go},
                 {"orphans", orphans}};
    kernels = argc == 3 ? argv[2] : "";
    for (size_t i = 0; argc == 3 && i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(argv[1], words[i].word)) {
            words[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: shim_races WORD KERNELS\n");
    return 2;
}
#endif
