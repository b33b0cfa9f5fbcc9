/* An ordinary CUDA program: it knows nothing of moiety.
 *
 *   worker KERNELS BYTES ROUNDS GPU_MS CPU_MS SEED [CHECK_EVERY]
 *
 * Allocates BYTES of GPU memory in pieces of many sizes, fills them, and then in each round changes
 * every word on the GPU, keeps the GPU busy until GPU_MS have passed and does without it for
 * CPU_MS. SIGUSR1 has it stop after the round that it is in. At the end it checks every word, once
 * on the GPU and, of some pieces, once more on the host. Checking takes longer the more rounds there
 * were, so one that runs until it is told to stop can check and begin anew every CHECK_EVERY rounds,
 * and has little left to do at the end.
 * Exit code 0: all of them are right. 3: some are wrong. 1: a call failed, which is named.
 *
 * Built with -DLOOKUP it finds the driver as frameworks do (dlopen, cuGetProcAddress), otherwise it
 * is linked with it.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

#define PIECES_MAX 64
#define MIB (1ull << 20)

#ifdef LOOKUP
/* As a runtime does it: the plain name, and the version in which it got its present form. */
#    define CALLS(X)                                                        \
        X(cuInit, "cuInit", 2000)                                           \
        X(cuDeviceGet, "cuDeviceGet", 2000)                                 \
        X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)       \
        X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000) \
        X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000)                         \
        X(cuModuleLoad, "cuModuleLoad", 2000)                               \
        X(cuModuleGetFunction, "cuModuleGetFunction", 2000)                 \
        X(cuStreamCreate, "cuStreamCreate", 2000)                           \
        X(cuStreamSynchronize, "cuStreamSynchronize", 2000)                 \
        X(cuLaunchKernel, "cuLaunchKernel", 4000)                           \
        X(cuMemAlloc_v2, "cuMemAlloc", 3020)                                \
        X(cuMemFree_v2, "cuMemFree", 3020)                                  \
        X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020)                            \
        X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020)                            \
        X(cuMemsetD8_v2, "cuMemsetD8", 3020)
#    define X(symbol, name, version) static __typeof__(&symbol) call_##symbol;
CALLS(X)
#    undef X
#    define CALL(symbol) call_##symbol

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    __typeof__(&cuGetProcAddress_v2) find =
        library ? (__typeof__(find))dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!find) {
        fprintf(stderr, "worker: no driver: %s\n", dlerror());
        exit(1);
    }
#    define X(symbol, name, version)                                                 \
        if (find(name, (void **)&call_##symbol, version, 0, NULL) != CUDA_SUCCESS || \
            !call_##symbol) {                                                        \
            fprintf(stderr, "worker: the driver has no %s\n", name);                 \
            exit(1);                                                                 \
        }
    CALLS(X)
#    undef X
}
#else
#    define CALL(name) name
static void find_driver(void) {}
#endif

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "worker: %s failed with error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(name, ...) must(CALL(name)(__VA_ARGS__), #name)

struct piece {
    CUdeviceptr at;
    u64 words;
};

static struct piece pieces[PIECES_MAX];
static int piece_count;
static CUfunction fill, step, check, spin;
static CUstream stream;
static volatile sig_atomic_t enough;

static void stop(int number)
{
    (void)number;
    enough = 1;
}

static u64 now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000 + (u64)now.tv_nsec / 1000000;
}

static void launch(CUfunction kernel, unsigned blocks, void **params)
{
    MUST(cuLaunchKernel, kernel, blocks, 1, 1, blocks > 1 ? 256 : 1, 1, 1, 0, stream, params, NULL);
}

/* A few small pieces, some odd ones, and the rest in large ones. */
static void allocate(u64 bytes)
{
    static const u64 small[] = {4096, 102400, 3 * MIB + 8};
    u64 left = bytes;
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]) && left > small[i] * 4; i++) {
        pieces[piece_count++].words = small[i] / 8;
        left -= small[i];
    }
    u64 large = left / 4 / (2 * MIB) * (2 * MIB);
    while (large && left >= large && piece_count < PIECES_MAX - 1 && left >= 2 * large) {
        pieces[piece_count++].words = large / 8;
        left -= large;
    }
    pieces[piece_count++].words = left / 8;
    for (int i = 0; i < piece_count; i++) {
        MUST(cuMemAlloc_v2, &pieces[i].at, pieces[i].words * 8);
    }
}

static u64 splitmix64(u64 x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static void fill_all(u64 seed)
{
    for (int i = 0; i < piece_count; i++) {
        u64 piece_seed = seed + (u64)i * 1000003;
        void *params[] = {&pieces[i].at, &pieces[i].words, &piece_seed};
        launch(fill, 1024, params);
    }
}

static u64 check_on_host(const struct piece *piece, u64 seed, u64 rounds)
{
    u64 *copy = malloc(piece->words * 8);
    u64 wrong = 0;
    if (!copy) {
        return 0; /* too large for the host: the GPU has checked it */
    }
    MUST(cuMemcpyDtoH_v2, copy, piece->at, piece->words * 8);
    for (u64 i = 0; i < piece->words; i++) {
        u64 word = splitmix64(seed + i);
        for (u64 k = 0; k < rounds; k++) {
            word = word * 6364136223846793005ull + k + i;
        }
        wrong += word != copy[i];
    }
    free(copy);
    return wrong;
}

static u64 check_all(u64 seed, u64 rounds)
{
    u64 *ks = malloc((rounds + 1) * 8);
    u64 wrong = 0;
    CUdeviceptr device_ks, errors;
    for (u64 k = 0; k < rounds; k++) {
        ks[k] = k;
    }
    MUST(cuMemAlloc_v2, &device_ks, (rounds + 1) * 8);
    MUST(cuMemAlloc_v2, &errors, 8);
    MUST(cuMemcpyHtoD_v2, device_ks, ks, (rounds + 1) * 8);
    MUST(cuMemsetD8_v2, errors, 0, 8);
    for (int i = 0; i < piece_count; i++) {
        u64 piece_seed = seed + (u64)i * 1000003;
        void *params[] = {&pieces[i].at, &pieces[i].words, &piece_seed,
                          &device_ks,    &rounds,          &errors};
        launch(check, 1024, params);
    }
    MUST(cuStreamSynchronize, stream);
    MUST(cuMemcpyDtoH_v2, &wrong, errors, 8);
    for (int i = 0; i < 3 && i < piece_count; i++) {
        wrong += check_on_host(&pieces[i], seed + (u64)i * 1000003, rounds);
    }
    MUST(cuMemFree_v2, device_ks);
    MUST(cuMemFree_v2, errors);
    free(ks);
    return wrong;
}

static void one_round(u64 round, u64 gpu_ms, u64 cpu_ms)
{
    u64 began = now_ms();
    for (int i = 0; i < piece_count; i++) {
        void *params[] = {&pieces[i].at, &pieces[i].words, &round};
        launch(step, 1024, params);
    }
    MUST(cuStreamSynchronize, stream);
    while (now_ms() - began < gpu_ms) {
        u64 us = 2000;
        void *params[] = {&us};
        launch(spin, 1, params);
        MUST(cuStreamSynchronize, stream);
    }
    if (cpu_ms) {
        struct timespec pause = {(time_t)(cpu_ms / 1000), (long)(cpu_ms % 1000) * 1000000L};
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    if (argc != 7 && argc != 8) {
        fprintf(stderr, "usage: worker KERNELS BYTES ROUNDS GPU_MS CPU_MS SEED [CHECK_EVERY]\n");
        return 2;
    }
    u64 rounds = strtoull(argv[3], NULL, 10);
    u64 gpu_ms = strtoull(argv[4], NULL, 10);
    u64 cpu_ms = strtoull(argv[5], NULL, 10);
    u64 seed = strtoull(argv[6], NULL, 10);
    u64 check_every = argc == 8 ? strtoull(argv[7], NULL, 10) : rounds;
    signal(SIGUSR1, stop);
    find_driver();
    MUST(cuInit, 0);
    MUST(cuDeviceGet, &device, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, device);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoad, &module, argv[1]);
    MUST(cuModuleGetFunction, &fill, module, "fill_u64");
    MUST(cuModuleGetFunction, &step, module, "step_u64");
    MUST(cuModuleGetFunction, &check, module, "check_u64");
    MUST(cuModuleGetFunction, &spin, module, "spin_us");
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    allocate(strtoull(argv[2], NULL, 10));
    fill_all(seed);
    u64 wrong = 0;
    u64 since = 0;
    for (u64 done = 0; done < rounds && !enough; done++) {
        if (since == check_every) {
            wrong += check_all(seed, since);
            fill_all(++seed);
            since = 0;
        }
        one_round(since++, gpu_ms, cpu_ms);
    }
    wrong += check_all(seed, since);
    for (int i = 0; i < piece_count; i++) {
        MUST(cuMemFree_v2, pieces[i].at);
    }
    MUST(cuDevicePrimaryCtxRelease_v2, device);
    printf("%llu words wrong\n", wrong);
    return wrong ? 3 : 0;
}
