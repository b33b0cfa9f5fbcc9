/* Small programs about the shim's calls, one for each word:  shim_calls WORD KERNELS
 *
 * Each says "ready" where whoever drives the test may take the lease away, reads a line, goes on,
 * and ends with exit code 0 if everything was as the driver's documentation has it. */
#include <dlfcn.h>
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
        fprintf(stderr, "shim_calls.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect((condition) != 0, __LINE__, #condition)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

static CUdevice device;
static CUcontext context;
static CUmodule module;
static const char *kernels;

static void begin(void)
{
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, kernels));
}

static void pause_for_test(void)
{
    char line[16];
    printf("ready\n");
    fflush(stdout);
    EXPECT(fgets(line, sizeof(line), stdin));
}

static void info(void)
{
    size_t total, available, again;
    CUdeviceptr at;
    begin();
    OK(cuDeviceTotalMem_v2(&total, device));
    EXPECT(total == 40 * MIB);
    OK(cuMemGetInfo_v2(&available, &again));
    EXPECT(again == total && available == total);
    OK(cuMemAlloc_v2(&at, 10 * MIB));
    OK(cuMemGetInfo_v2(&available, &again));
    EXPECT(again == total && available == total - 10 * MIB);
    EXPECT(cuMemAlloc_v2(&at, 41 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cuMemAlloc_v2(&at, 0) == CUDA_ERROR_INVALID_VALUE);
}

/* The limit is lowered below what is allocated, and raised, while the program runs. */
static void limit(void)
{
    static const unsigned long long limits[] = {40, 5, 60};
    size_t total, available;
    CUdeviceptr first, at;
    begin();
    OK(cuMemAlloc_v2(&first, 10 * MIB));
    for (size_t i = 0; i < 3; i++) {
        unsigned long long left = limits[i] < 10 ? 0 : limits[i] - 10;
        pause_for_test();
        do { /* the message is on its way */
            OK(cuMemGetInfo_v2(&available, &total));
        } while (total != limits[i] * MIB);
        EXPECT(available == left * MIB);
        OK(cuDeviceTotalMem_v2(&total, device));
        EXPECT(total == limits[i] * MIB);
        EXPECT(cuMemAlloc_v2(&at, (limits[i] + 1) * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
        OK(cuMemsetD8_v2(first, 1, 10 * MIB)); /* what it has, it has */
    }
    OK(cuMemFree_v2(first));
}

/* The driver runs out by itself; whoever drives the test has two tries to make room, in vain, and two
 * more while a capture is open. */
static void room(void)
{
    CUresult result = CUDA_SUCCESS;
    CUstream stream;
    CUmodule more;
    begin();
    pause_for_test();
    while (result == CUDA_SUCCESS) {
        result = cuModuleLoad(&more, kernels);
    }
    EXPECT(result == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(cuModuleLoad(&more, kernels) == CUDA_ERROR_OUT_OF_MEMORY);
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
}

/* The GPU waits for a word, which is written when the memory is exported, or is not to be opened. */
static void while_the_gpu_waits(int opens)
{
    CUstream waits, writes;
    CUdeviceptr word, at;
    CUipcMemHandle handle = {"moietyIP and a token"};
    begin();
    OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&writes, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&word, 4));
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    OK(cuMemsetD32_v2(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32_v2(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    pause_for_test();
    if (opens) {
        EXPECT(cuIpcOpenMemHandle_v2(&at, handle, 1) != CUDA_SUCCESS);
    } else {
        OK(cuIpcGetMemHandle(&handle, at));
    }
    OK(cuStreamWriteValue32_v2(writes, word, 1, 0));
    OK(cuStreamSynchronize(waits));
}

static void pin(void) { while_the_gpu_waits(0); }

static void import(void) { while_the_gpu_waits(1); }

static void errors(void)
{
    CUdeviceptr at, base;
    size_t bytes, pitch;
    begin();
    OK(cuMemAlloc_v2(&at, 5 * MIB));
    OK(cuMemGetAddressRange_v2(&base, &bytes, at + 3 * MIB));
    EXPECT(base == at && bytes == 5 * MIB);
    EXPECT(cuMemFree_v2(at + 512) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(at));
    EXPECT(cuMemFree_v2(at) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(0));
    OK(cuMemAllocPitch_v2(&at, &pitch, 1000, 4000, 4));
    EXPECT(pitch >= 1000 && pitch % 512 == 0);
    OK(cuMemsetD2D8_v2(at, pitch, 7, 1000, 4000));
    OK(cuMemFree_v2(at));
    EXPECT(cuMemAllocPitch_v2(&at, &pitch, 1000, 4000, 3) == CUDA_ERROR_INVALID_VALUE);
}

#define SMALL 3000

static void small(void)
{
    static CUdeviceptr at[SMALL];
    static unsigned char back[8192];
    begin();
    for (int i = 0; i < SMALL; i++) {
        OK(cuMemAlloc_v2(&at[i], (size_t)(i % 37) * 199 + 1));
        EXPECT(at[i] % 256 == 0);
        OK(cuMemsetD8_v2(at[i], (unsigned char)i, (size_t)(i % 37) * 199 + 1));
    }
    for (int i = 0; i < SMALL; i += 3) {
        OK(cuMemFree_v2(at[i]));
        EXPECT(cuMemFree_v2(at[i]) != CUDA_SUCCESS);
    }
    pause_for_test();
    for (int i = 0; i < SMALL; i++) {
        size_t bytes = (size_t)(i % 37) * 199 + 1;
        if (i % 3 == 0) {
            continue;
        }
        OK(cuMemcpyDtoH_v2(back, at[i], bytes));
        for (size_t b = 0; b < bytes; b++) {
            EXPECT(back[b] == (unsigned char)i);
        }
        OK(cuMemFree_v2(at[i]));
    }
}

static void *here;
static int next_is_ours(void) { return dlsym(RTLD_NEXT, "malloc") != NULL; }

static void lookup(void)
{
    void *plain, *per_thread, *symbol;
    CUdriverProcAddressQueryResult status;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    Dl_info from;
    begin();
    EXPECT(next_is_ours());
    EXPECT(dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") == NULL && dlerror() != NULL);
    symbol = dlsym(driver, "cuMemAlloc_v2");
    EXPECT(dladdr(symbol, &from) && strstr(from.dli_fname, "libmoiety"));
    OK(cuGetProcAddress_v2("cuMemAlloc", &here, 12000, 0, &status));
    EXPECT(here == symbol);
    OK(cuGetProcAddress_v2("cuLaunchKernel", &plain, 12000, 0, &status));
    OK(cuGetProcAddress_v2("cuLaunchKernel", &per_thread, 12000, 2, &status));
    EXPECT(plain == dlsym(driver, "cuLaunchKernel"));
    EXPECT(per_thread == dlsym(driver, "cuLaunchKernel_ptsz"));
    EXPECT(plain != per_thread);
    OK(cuGetProcAddress_v2("cuDeviceGetName", &plain, 12000, 0, &status));
    EXPECT(dladdr(plain, &from) && strstr(from.dli_fname, "libcuda.so.1"));
    EXPECT(cuGetProcAddress_v2("cuNoSuchCall", &plain, 12000, 0, &status) != CUDA_SUCCESS ||
           status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void forked(void)
{
    CUdeviceptr at;
    int status;
    begin();
    OK(cuMemAlloc_v2(&at, 4 * MIB));
    OK(cuMemsetD8_v2(at, 9, 4 * MIB));
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr other;
        _exit(cuMemAlloc_v2(&other, 4 * MIB) == CUDA_SUCCESS ? 1 : 0);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pause_for_test();
    unsigned char byte = 0;
    OK(cuMemcpyDtoH_v2(&byte, at + 3 * MIB, 1));
    EXPECT(byte == 9);
    OK(cuMemFree_v2(at));
}

static void contexts(void)
{
    CUcontext own;
    CUdeviceptr at, kept;
    unsigned char byte = 0;
    begin();
    OK(cuMemAlloc_v2(&kept, 2 * MIB));
    OK(cuMemsetD8_v2(kept, 5, 2 * MIB));
    OK(cuCtxCreate_v2(&own, 0, device));
    OK(cuMemAlloc_v2(&at, 6 * MIB));
    OK(cuMemAlloc_v2(&at, 100));
    OK(cuCtxDestroy_v2(own));
    OK(cuCtxCreate_v2(&own, 0, device));
    OK(cuMemAlloc_v2(&at, 6 * MIB));
    OK(cuCtxDestroy(own)); /* which a driver may well carry out by way of the other */
    OK(cuCtxSetCurrent(context));
    OK(cuMemcpyDtoH_v2(&byte, kept + MIB, 1));
    EXPECT(byte == 5);
    OK(cuDevicePrimaryCtxReset_v2(device));
    printf("gone\n");
}

static void graph(void)
{
    CUdeviceptr at;
    CUstream stream;
    CUgraph made;
    CUgraphExec exec;
    CUfunction step;
    unsigned long long words = 512 * 1024ull, k = 1, back[2];
    begin();
    OK(cuModuleGetFunction(&step, module, "step_u64"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&at, words * 8));
    OK(cuMemsetD8_v2(at, 0, words * 8));
    void *params[] = {&at, &words, &k};
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    pause_for_test(); /* the lease is taken away in the middle of the capture */
    OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuStreamEndCapture(stream, &made));
    OK(cuGraphInstantiateWithFlags(&exec, made, 0));
    pause_for_test(); /* its memory leaves and comes back */
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(back, at + 8, 8));
    /* word 1, twice: w * 6364136223846793005 + 1 + 1 */
    unsigned long long expected = 2;
    expected = expected * 6364136223846793005ull + 2;
    EXPECT(back[0] == expected);
}

static void abandoned(void)
{
    CUstream stream;
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamDestroy_v2(stream));
    pause_for_test();
}

static void *one_copy(void *at)
{
    unsigned char byte = 0;
    OK(cuCtxSetCurrent(context));
    OK(cuMemcpyDtoH_v2(&byte, *(CUdeviceptr *)at, 1));
    EXPECT(byte == 3);
    return NULL;
}

#define CROWD 1200 /* more than there are slots for threads */

static pthread_barrier_t crowd_is_there;

static void *one_of_many(void *at)
{
    one_copy(at); /* takes its slot, and keeps it until the thread ends */
    pthread_barrier_wait(&crowd_is_there);
    pthread_barrier_wait(&crowd_is_there);
    return one_copy(at);
}

static void crowd(void)
{
    static pthread_t threads[CROWD];
    pthread_attr_t little;
    CUdeviceptr at;
    begin();
    OK(cuMemAlloc_v2(&at, 2 * MIB));
    OK(cuMemsetD8_v2(at, 3, 2 * MIB));
    pthread_attr_init(&little);
    pthread_attr_setstacksize(&little, 256 * 1024ul);
    pthread_barrier_init(&crowd_is_there, NULL, CROWD + 1);
    for (int i = 0; i < CROWD; i++) {
        EXPECT(pthread_create(&threads[i], &little, one_of_many, &at) == 0);
    }
    pthread_barrier_wait(&crowd_is_there);
    pause_for_test();
    pthread_barrier_wait(&crowd_is_there);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*run)(void);
    } words[] = {{"info", info},     {"errors", errors}, {"small", small},
                 {"lookup", lookup}, {"forked", forked}, {"contexts", contexts},
                 {"graph", graph},   {"crowd", crowd},   {"abandoned", abandoned},
                 {"limit", limit},   {"room", room},     {"pin", pin},
                 {"import", import}};
    kernels = argc == 3 ? argv[2] : "";
    for (size_t i = 0; argc == 3 && i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(argv[1], words[i].word)) {
            words[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: shim_calls WORD KERNELS\n");
    return 2;
}
