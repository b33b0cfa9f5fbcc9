/* Small programs about memory that moves, one for each word:  shim_swap WORD KERNELS
 *
 * Each says "ready" where whoever drives the test may move its memory, reads a line, goes on, and
 * ends with exit code 0 if every byte was right. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"
#include "simgpu/api/inspect.h"

#define MIB (1ull << 20)
static void expect(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "shim_swap.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect((condition) != 0, __LINE__, #condition)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

static CUmodule module;
static const char *kernels;
static void *driver;

static void begin(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, kernels));
    driver = dlopen("libcuda.so.1", RTLD_NOW);
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void pause_for_test(void)
{
    char line[16];
    say("ready");
    EXPECT(fgets(line, sizeof(line), stdin));
}

static struct simgpu_counters count(void)
{
    struct simgpu_counters now;
    int (*counters)(struct simgpu_counters *) =
        (__typeof__(counters))dlsym(driver, "simgpu_counters");
    EXPECT(counters && counters(&now) == 0);
    return now;
}

static void fail_copies(int to_gpu, uint64_t after, uint64_t times)
{
    void (*fail)(int, uint64_t, uint64_t, int) =
        (__typeof__(fail))dlsym(driver, "simgpu_fail_copies");
    EXPECT(fail);
    fail(to_gpu, after, times, CUDA_ERROR_UNKNOWN);
}

/* Words whose values follow from a seed, by kernels. */
static CUdeviceptr allocate(unsigned long long bytes, unsigned long long seed)
{
    CUdeviceptr at;
    CUfunction fill;
    unsigned long long words = bytes / 8;
    OK(cuModuleGetFunction(&fill, module, "fill_u64"));
    OK(cuMemAlloc_v2(&at, bytes));
    OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &words, &seed}, NULL));
    return at;
}

static void check(CUdeviceptr at, unsigned long long bytes, unsigned long long seed)
{
    static CUdeviceptr wrong_at;
    CUfunction kernel;
    unsigned long long words = bytes / 8, none = 0, wrong = 0;
    if (!wrong_at) {
        OK(cuMemAlloc_v2(&wrong_at, 8));
    }
    OK(cuModuleGetFunction(&kernel, module, "check_u64"));
    OK(cuMemcpyHtoD_v2(wrong_at, &wrong, 8));
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
                      (void *[]){&at, &words, &seed, &none, &none, &wrong_at}, NULL));
    OK(cuMemcpyDtoH_v2(&wrong, wrong_at, 8));
    EXPECT(wrong == 0);
}

/* 24 MiB of zeros, but for a word in the third chunk of 2 MiB and the last byte of the fifth. */
static void zeros(void)
{
    CUdeviceptr at;
    unsigned char *back = malloc(24 * MIB);
    unsigned long long wrong = 0;
    begin();
    OK(cuMemAlloc_v2(&at, 24 * MIB));
    OK(cuMemsetD8_v2(at, 0, 24 * MIB));
    OK(cuMemsetD8_v2(at + 5 * MIB, 7, 8));
    OK(cuMemsetD8_v2(at + 10 * MIB - 1, 9, 1));
    OK(cuCtxSynchronize());
    struct simgpu_counters before = count();
    pause_for_test();
    OK(cuMemcpyDtoH_v2(back, at, 24 * MIB));
    struct simgpu_counters after = count();
    for (unsigned long long i = 0; i < 24 * MIB; i++) {
        unsigned char right = i >= 5 * MIB && i < 5 * MIB + 8 ? 7 : i == 10 * MIB - 1 ? 9 : 0;
        wrong += back[i] != right;
    }
    EXPECT(wrong == 0);
    printf("%llu\n", after.copied_bytes - before.copied_bytes - 24 * MIB);
}

/* Allocates and frees while its memory is on its way out. */
static void meanwhile(void)
{
    CUdeviceptr small, other;
    begin();
    OK(cuMemAlloc_v2(&small, 1000));
    CUdeviceptr kept = allocate(16 * MIB, 1);
    CUdeviceptr moved = allocate(16 * MIB, 2);
    CUdeviceptr freed = allocate(4 * MIB, 3);
    OK(cuCtxSynchronize());
    pause_for_test(); /* the first chunk has left, the last one has long to go */
    OK(cuMemAlloc_v2(&other, 2000));
    OK(cuMemFree_v2(small));
    OK(cuMemFree_v2(freed));
    OK(cuMemFree_v2(moved));
    EXPECT(cuMemFree_v2(moved) == CUDA_ERROR_INVALID_VALUE);
    say("done");
    OK(cuMemsetD8_v2(other, 4, 2000)); /* with the next lease */
    check(kept, 16 * MIB, 1);
}

static void failing(int to_gpu, uint64_t times)
{
    begin();
    CUdeviceptr at = allocate(16 * MIB, 5);
    OK(cuCtxSynchronize());
    fail_copies(to_gpu, 3, times);
    pause_for_test();
    fail_copies(to_gpu, 0, 0);
    check(at, 16 * MIB, 5);
}

static void failing_in(void) { failing(1, 2); }

static void failing_long(void) { failing(1, 8); }

static void failing_out(void) { failing(0, 2); }

/* One large piece and a few small ones. */
static void sizes(void)
{
    begin();
    CUdeviceptr large = allocate(64 * MIB, 1), middle = allocate(8 * MIB, 2);
    CUdeviceptr small = allocate(2 * MIB, 3);
    OK(cuCtxSynchronize());
    pause_for_test();
    check(large, 64 * MIB, 1);
    check(middle, 8 * MIB, 2);
    check(small, 2 * MIB, 3);
}

static _Atomic int ends;

static void *wait_for_line(void *unused)
{
    char line[16];
    EXPECT(fgets(line, sizeof(line), stdin));
    ends = 1;
    return unused;
}

/* Takes much, writes one word of it, and works on until it is told to end. */
static void lazy(void)
{
    CUdeviceptr at;
    CUfunction spin;
    pthread_t waits;
    unsigned long long us = 500, bytes = 60 * MIB, wrong = 0;
    unsigned char *back = malloc(bytes);
    begin();
    OK(cuModuleGetFunction(&spin, module, "spin_us"));
    OK(cuMemAlloc_v2(&at, bytes));
    OK(cuMemsetD8_v2(at, 0, bytes));
    OK(cuMemsetD8_v2(at + 31 * MIB, 5, 8));
    EXPECT(pthread_create(&waits, NULL, wait_for_line, NULL) == 0);
    while (!ends) {
        OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&us}, NULL));
        OK(cuCtxSynchronize());
    }
    OK(cuMemcpyDtoH_v2(back, at, bytes));
    for (unsigned long long i = 0; i < bytes; i++) {
        wrong += back[i] != (i >= 31 * MIB && i < 31 * MIB + 8 ? 5 : 0);
    }
    EXPECT(wrong == 0);
}

#define PIECES 12

/* Allocates, checks and frees at random until it is told to end, in two threads. */
static void *churn_in_thread(void *number)
{
    CUdeviceptr at[PIECES] = {0};
    unsigned long long bytes[PIECES] = {0}, seeds[PIECES] = {0}, seed = 1 + *(int *)number;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    while (!ends) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        int i = (int)(seed >> 33) % PIECES;
        if (at[i]) {
            unsigned char first = 0, last = 0;
            OK(cuMemcpyDtoH_v2(&first, at[i], 1));
            OK(cuMemcpyDtoH_v2(&last, at[i] + bytes[i] - 1, 1));
            EXPECT(first == (unsigned char)seeds[i]);
            EXPECT(last == (unsigned char)(seeds[i] >> 8));
            OK(cuMemFree_v2(at[i]));
            at[i] = 0;
            continue;
        }
        unsigned shape = (unsigned)(seed >> 40) % 3; /* small, some granules, several chunks */
        bytes[i] = 2 + (shape == 0   ? (seed >> 20) % 100000
                        : shape == 1 ? (seed >> 20) % (5 * MIB)
                                     : (seed >> 20) % (40 * MIB));
        seeds[i] = seed >> 12;
        OK(cuMemAlloc_v2(&at[i], bytes[i]));
        OK(cuMemsetD8_v2(at[i], 0, bytes[i]));
        OK(cuMemsetD8_v2(at[i], (unsigned char)seeds[i], 1));
        OK(cuMemsetD8_v2(at[i] + bytes[i] - 1, (unsigned char)(seeds[i] >> 8), 1));
    }
    return NULL;
}

static void churn(void)
{
    pthread_t threads[2];
    int numbers[2] = {1, 2};
    char line[16];
    begin();
    CUdeviceptr kept = allocate(20 * MIB + 8, 11);
    OK(cuCtxSynchronize());
    say("ready");
    for (int i = 0; i < 2; i++) {
        EXPECT(pthread_create(&threads[i], NULL, churn_in_thread, &numbers[i]) == 0);
    }
    EXPECT(fgets(line, sizeof(line), stdin));
    ends = 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    check(kept, 20 * MIB + 8, 11);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*run)(void);
    } words[] = {{"zeros", zeros},
                 {"meanwhile", meanwhile},
                 {"failing-in", failing_in},
                 {"sizes", sizes},
                 {"churn", churn},
                 {"failing-out", failing_out},
                 {"lazy", lazy},
                 {"failing-long", failing_long}};
    kernels = argc == 3 ? argv[2] : "";
    for (size_t i = 0; argc == 3 && i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(argv[1], words[i].word)) {
            words[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: shim_swap WORD KERNELS\n");
    return 2;
}
