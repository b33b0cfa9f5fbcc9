/* A program with one handle of memory that is larger than a segment of a small arena.
 *
 *   large_handle KERNELS MIB SEED
 *
 * In each round it changes every word; SIGUSR1 has it stop, and check them all. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

#define ROUNDS_MAX 1000000ull

static volatile sig_atomic_t enough;

static void must(CUresult result, int line, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "large_handle.c:%d: %s failed with error %d\n", line, what, (int)result);
        exit(1);
    }
}
#define OK(call) must(call, __LINE__, #call)

static void stop(int number)
{
    (void)number;
    enough = 1;
}

static CUmodule module;

static void run(const char *name, void **params)
{
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, name));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at, ks_at, wrong_at;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (argc != 4) {
        return 64;
    }
    u64 bytes = strtoull(argv[2], NULL, 10) << 20, seed = strtoull(argv[3], NULL, 10);
    u64 words = bytes / 8, wrong = 0, round = 0;
    signal(SIGUSR1, stop);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, argv[1]));
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    OK(cuMemMap(at, bytes, 0, handle, 0));
    OK(cuMemSetAccess(at, bytes, &access, 1));
    run("fill_u64", (void *[]){&at, &words, &seed});
    for (; !enough && round < ROUNDS_MAX; round++) {
        run("step_u64", (void *[]){&at, &words, &round});
    }
    u64 *ks = malloc((round + 1) * 8);
    for (u64 k = 0; ks && k < round; k++) {
        ks[k] = k;
    }
    OK(cuMemAlloc_v2(&ks_at, round * 8));
    OK(cuMemAlloc_v2(&wrong_at, 8));
    OK(cuMemcpyHtoD_v2(ks_at, ks, round * 8));
    OK(cuMemcpyHtoD_v2(wrong_at, &wrong, 8));
    run("check_u64", (void *[]){&at, &words, &seed, &ks_at, &round, &wrong_at});
    OK(cuMemcpyDtoH_v2(&wrong, wrong_at, 8));
    free(ks);
    printf("%llu words wrong\n", wrong);
    return wrong ? 3 : 0;
}
