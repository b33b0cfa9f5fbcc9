/* A program that maps its memory itself, in every way that there is.
 *
 *   vmm_turns KERNELS ROUNDS SEED
 *
 * Takes 56 MiB. In each round it changes every word of all its memory; at the end it checks them all.
 * SIGUSR1 has it stop after the round that it is in. Exit code 0: all words are right. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

#define MIB (1ull << 20)
#define HERE (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}

static void must(CUresult result, int line, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "vmm_turns.c:%d: %s failed with error %d\n", line, what, (int)result);
        exit(1);
    }
}
#define OK(call) must(call, __LINE__, #call)

static void demand(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "vmm_turns.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define DEMAND(condition) demand((condition) != 0, __LINE__, #condition)

enum kind {
    ONCE,   /* mapped once; could be exported, but is not */
    TWICE,  /* in several chunks, at two addresses */
    HIDDEN, /* mapped only while it is worked on, each time somewhere else */
    ORPHAN, /* its handle was released */
    PARTLY, /* only its first half is mapped most of the time */
    READ,   /* may be read only, but while it is worked on */
    ASLEEP, /* now and then its memory is given back and made anew at the same address */
    GIVEN,  /* exported: others could see it */
    KINDS,
};
static const u64 sizes[KINDS] = {6 * MIB, 24 * MIB, 4 * MIB, 6 * MIB,
                                 4 * MIB, 2 * MIB,  8 * MIB, 2 * MIB};

static struct {
    CUdeviceptr at, other;
    CUmemGenericAllocationHandle handle;
    u64 bytes, seed;
} regions[KINDS];
static CUfunction fill, step, check;
static CUstream stream;
static CUgraphExec graph;
static volatile sig_atomic_t enough;

static void stop(int number)
{
    (void)number;
    enough = 1;
}

static void allow(CUdeviceptr at, u64 bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {HERE, flags};
    OK(cuMemSetAccess(at, bytes, &access, 1));
}

static void map(CUdeviceptr at, u64 bytes, CUmemGenericAllocationHandle handle)
{
    OK(cuMemMap(at, bytes, 0, handle, 0));
    allow(at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static CUmemGenericAllocationHandle create(enum kind kind, u64 bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = HERE};
    if (kind == ONCE || kind == GIVEN) {
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static void make(enum kind kind, u64 seed)
{
    u64 bytes = sizes[kind], words = bytes / 8;
    CUdeviceptr at;
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    regions[kind].at = at;
    regions[kind].bytes = bytes;
    regions[kind].seed = seed;
    regions[kind].handle = create(kind, bytes);
    map(at, bytes, regions[kind].handle);
    OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &words, &seed}, NULL));
    OK(cuStreamSynchronize(stream));
}

/* As it is between the rounds. */
static void rest(enum kind kind)
{
    CUdeviceptr at = regions[kind].at;
    u64 bytes = regions[kind].bytes;
    OK(cuStreamSynchronize(stream));
    if (kind == HIDDEN) {
        OK(cuMemUnmap(at, bytes));
        OK(cuMemAddressFree(at, bytes));
    } else if (kind == PARTLY) {
        OK(cuMemUnmap(at, bytes));
        map(at, bytes / 2, regions[kind].handle);
    } else if (kind == READ) {
        allow(at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READ);
    }
}

static void wake(enum kind kind)
{
    u64 bytes = regions[kind].bytes;
    unsigned long long flags;
    CUmemLocation here = HERE;
    if (kind == HIDDEN) {
        OK(cuMemAddressReserve(&regions[kind].at, bytes, 0, 0, 0));
        map(regions[kind].at, bytes, regions[kind].handle);
    } else if (kind == PARTLY) {
        OK(cuMemUnmap(regions[kind].at, bytes / 2));
        map(regions[kind].at, bytes, regions[kind].handle);
    } else if (kind == READ) {
        OK(cuMemGetAccess(&flags, &here, regions[kind].at));
        DEMAND(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
        allow(regions[kind].at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
}

/* As vLLM's sleep mode: the bytes go to the host, the memory is given back, another comes in its place,
 * and graphs that were made before go on. */
static void sleep_and_wake(void)
{
    static void *kept;
    CUdeviceptr at = regions[ASLEEP].at;
    u64 bytes = regions[ASLEEP].bytes;
    if (!kept) {
        kept = malloc(bytes);
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(kept, at, bytes));
    OK(cuMemUnmap(at, bytes));
    OK(cuMemRelease(regions[ASLEEP].handle));
    DEMAND(cuMemRelease(regions[ASLEEP].handle) == CUDA_ERROR_INVALID_VALUE);
    regions[ASLEEP].handle = create(ASLEEP, bytes);
    map(at, bytes, regions[ASLEEP].handle);
    OK(cuMemcpyHtoD_v2(at, kept, bytes));
}

static void make_graph(void)
{
    CUgraph made;
    static u64 none; /* of what the kernel adds: step_u64 with k = 0 */
    u64 words = regions[ASLEEP].bytes / 8;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream,
                      (void *[]){&regions[ASLEEP].at, &words, &none}, NULL));
    OK(cuStreamEndCapture(stream, &made));
    OK(cuGraphInstantiateWithFlags(&graph, made, 0));
}

static void one_round(u64 round)
{
    for (int kind = 0; kind < KINDS; kind++) {
        u64 words = regions[kind].bytes / 8;
        wake(kind);
        if (kind == ASLEEP) {
            OK(cuGraphLaunch(graph, stream));
        } else {
            CUdeviceptr at = kind == TWICE && round % 2 ? regions[kind].other : regions[kind].at;
            OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &words, &round},
                              NULL));
        }
        rest(kind);
    }
    if (round % 7 == 3) {
        sleep_and_wake();
    }
}

static u64 check_all(u64 rounds)
{
    u64 *ks = calloc(rounds + 1, 8);
    u64 wrong = 0, nothing = 0;
    CUdeviceptr counts[2], errors;
    OK(cuMemAlloc_v2(&errors, 8));
    OK(cuMemcpyHtoD_v2(errors, &nothing, 8));
    for (int i = 0; i < 2; i++) { /* 0: the graph's, 1: all others' */
        OK(cuMemAlloc_v2(&counts[i], (rounds + 1) * 8));
        OK(cuMemcpyHtoD_v2(counts[i], ks, (rounds + 1) * 8));
        for (u64 k = 0; k < rounds; k++) {
            ks[k] = k;
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        u64 words = regions[kind].bytes / 8;
        for (int both = 0; both < (kind == TWICE ? 2 : 1); both++) {
            wake(kind);
            CUdeviceptr at = both ? regions[kind].other : regions[kind].at;
            OK(cuLaunchKernel(check, 1, 1, 1, 1, 1, 1, 0, stream,
                              (void *[]){&at, &words, &regions[kind].seed, &counts[kind != ASLEEP],
                                         &rounds, &errors},
                              NULL));
            rest(kind);
        }
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&wrong, errors, 8));
    free(ks);
    return wrong;
}

static void prepare(u64 seed)
{
    int file;
    CUmemGenericAllocationHandle same;
    for (int kind = 0; kind < KINDS; kind++) {
        make(kind, seed + (u64)kind * 1000003);
    }
    OK(cuMemAddressReserve(&regions[TWICE].other, regions[TWICE].bytes, 0, 0, 0));
    map(regions[TWICE].other, regions[TWICE].bytes, regions[TWICE].handle);
    OK(cuMemRelease(regions[ORPHAN].handle));
    OK(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(regions[ORPHAN].at + MIB)));
    OK(cuMemRelease(same));
    OK(cuMemExportToShareableHandle(&file, regions[GIVEN].handle,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(file);
    for (int kind = 0; kind < KINDS; kind++) {
        rest(kind);
    }
    make_graph();
}

static void finish(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        wake(kind);
        OK(cuMemUnmap(regions[kind].at, regions[kind].bytes));
        OK(cuMemAddressFree(regions[kind].at, regions[kind].bytes));
        if (kind == TWICE) {
            OK(cuMemUnmap(regions[kind].other, regions[kind].bytes));
        }
        DEMAND(cuMemRelease(regions[kind].handle) ==
               (kind == ORPHAN ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));
    }
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    if (argc != 4) {
        fprintf(stderr, "usage: vmm_turns KERNELS ROUNDS SEED\n");
        return 2;
    }
    u64 rounds = strtoull(argv[2], NULL, 10), done = 0;
    signal(SIGUSR1, stop);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, argv[1]));
    OK(cuModuleGetFunction(&fill, module, "fill_u64"));
    OK(cuModuleGetFunction(&step, module, "step_u64"));
    OK(cuModuleGetFunction(&check, module, "check_u64"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    prepare(strtoull(argv[3], NULL, 10));
    for (; done < rounds && !enough; done++) {
        one_round(done);
    }
    u64 wrong = check_all(done);
    finish();
    OK(cuDevicePrimaryCtxRelease_v2(0));
    printf("%llu words wrong\n", wrong);
    return wrong ? 3 : 0;
}
