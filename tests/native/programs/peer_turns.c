/* A program on two GPUs, each of which uses the other's memory.
 *
 *   peer_turns KERNELS ROUNDS [moiety]
 *
 * In each round each GPU changes what is its own, reads what is the other's, and gets a copy of it, in
 * every way that there is. With a third word it also asks, in every round, whether all its memory is open
 * to both GPUs. SIGUSR1 has it stop after the round that it is in. Exit code 0: every word is right. */
#include "mistakes.h"

typedef unsigned long long u64;

#define BYTES (24 * MIB)
#define WORDS 4096ull /* of each end of the memory are followed on the host */

enum { FIRST, FUTURE, POOLED, MAPPED, KINDS };
static const u64 sizes[KINDS] = {BYTES, 8 * MIB, 4 * MIB, 4 * MIB};

static struct side {
    CUcontext context;
    CUfunction step, fill, add;
    CUdeviceptr at[KINDS], sum, copy, copy_later;
    u64 model[KINDS][WORDS], summed[WORDS];
} sides[2];

static void demand(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "peer_turns.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define DEMAND(condition) demand((condition) != 0, __LINE__, #condition)

static void run(CUfunction kernel, CUdeviceptr at, u64 second, u64 third)
{
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &second, &third}, NULL));
}

static CUdeviceptr map_for_both(CUdevice own)
{
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, own}};
    CUmemAccessDesc both[2];
    for (int i = 0; i < 2; i++) {
        both[i] =
            (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    OK(cuMemAddressReserve(&at, sizes[MAPPED], 0, 0, 0));
    OK(cuMemCreate(&handle, sizes[MAPPED], &prop, 0));
    OK(cuMemMap(at, sizes[MAPPED], 0, handle, 0));
    OK(cuMemSetAccess(at, sizes[MAPPED], both, 2));
    return at;
}

static void begin(CUdevice own, const char *kernels)
{
    struct side *side = &sides[own];
    CUmodule module;
    OK(cuDevicePrimaryCtxRetain(&side->context, own));
    OK(cuCtxSetCurrent(side->context));
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&side->step, module, "step_u64"));
    OK(cuModuleGetFunction(&side->fill, module, "fill_u64"));
    OK(cuModuleGetFunction(&side->add, module, "add_u64"));
    OK(cuMemAlloc_v2(&side->at[FIRST], sizes[FIRST]));
    OK(cuMemAlloc_v2(&side->sum, WORDS * 8));
    OK(cuMemAlloc_v2(&side->copy, WORDS * 8));
    OK(cuMemAlloc_v2(&side->copy_later, WORDS * 8));
    OK(cuMemsetD8_v2(side->sum, 0, WORDS * 8));
}

static void allow(CUdevice own)
{
    struct side *side = &sides[own];
    CUmemoryPool pool;
    CUmemAccessDesc peer = {{CU_MEM_LOCATION_TYPE_DEVICE, !own},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuCtxSetCurrent(side->context));
    OK(cuCtxEnablePeerAccess(sides[!own].context, 0));
    OK(cuDeviceGetDefaultMemPool(&pool, own));
    OK(cuMemPoolSetAccess(pool, &peer, 1));
}

static void make_rest(CUdevice own)
{
    struct side *side = &sides[own];
    OK(cuCtxSetCurrent(side->context));
    OK(cuMemAlloc_v2(&side->at[FUTURE], sizes[FUTURE]));
    OK(cuMemAllocAsync(&side->at[POOLED], sizes[POOLED], NULL));
    side->at[MAPPED] = map_for_both(own);
    for (int kind = 0; kind < KINDS; kind++) {
        run(side->fill, side->at[kind], sizes[kind] / 8, (u64)own * 10 + (u64)kind);
        OK(cuMemcpyDtoH_v2(side->model[kind], side->at[kind], WORDS * 8));
    }
    OK(cuCtxSynchronize());
}

/* Changes what is its own. */
static void change(struct side *side, u64 k)
{
    OK(cuCtxSetCurrent(side->context));
    for (int kind = 0; kind < KINDS; kind++) {
        run(side->step, side->at[kind], sizes[kind] / 8, k);
        for (u64 i = 0; i < WORDS; i++) {
            side->model[kind][i] = side->model[kind][i] * 6364136223846793005ull + k + i;
        }
    }
    OK(cuCtxSynchronize());
}

/* Reads what is the other's. */
static void use(struct side *side, const struct side *other)
{
    OK(cuCtxSetCurrent(side->context));
    for (int kind = 0; kind < KINDS; kind++) {
        run(side->add, side->sum, other->at[kind], WORDS);
        for (u64 i = 0; i < WORDS; i++) {
            side->summed[i] += other->model[kind][i];
        }
    }
    OK(cuMemcpyPeer(side->copy, side->context, other->at[FIRST], other->context, WORDS * 8));
    OK(cuMemcpyPeerAsync(side->copy_later, side->context, other->at[FUTURE], other->context,
                         WORDS * 8, NULL));
    OK(cuCtxSynchronize());
}

static void look(CUdeviceptr at, const u64 *model, const char *what)
{
    static u64 words[WORDS];
    OK(cuMemcpyDtoH_v2(words, at, sizeof(words)));
    for (u64 i = 0; i < WORDS; i++) {
        if (words[i] != model[i]) {
            printf("%s: word %llu is wrong\n", what, i);
            exit(3);
        }
    }
}

static void check(const struct side *side, const struct side *other)
{
    OK(cuCtxSetCurrent(side->context));
    for (int kind = 0; kind < KINDS; kind++) {
        look(side->at[kind], side->model[kind], "its own");
    }
    look(side->sum, side->summed, "what was read");
    look(side->copy, other->model[FIRST], "copied");
    look(side->copy_later, other->model[FUTURE], "copied later");
}

/* Each page of all memory. */
static void ask_for_access(const struct side *side)
{
    for (int device = 0; device < 2; device++) {
        CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        for (int kind = 0; kind < KINDS; kind++) {
            for (u64 offset = 0; offset < sizes[kind]; offset += 2 * MIB) {
                unsigned long long flags = 0;
                OK(cuMemGetAccess(&flags, &location, side->at[kind] + offset));
                DEMAND(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            }
        }
    }
}

int main(int argc, char **argv)
{
    int can = 0;
    u64 rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    signal(SIGUSR1, mistakes_stop);
    OK(cuInit(0));
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    DEMAND(can);
    begin(0, argv[1]);
    begin(1, argv[1]);
    allow(0);
    allow(1);
    make_rest(0);
    make_rest(1);
    for (u64 round = 1; round <= rounds && !mistakes_enough; round++) {
        change(&sides[0], round);
        change(&sides[1], round + 7);
        use(&sides[0], &sides[1]);
        use(&sides[1], &sides[0]);
        check(&sides[0], &sides[1]);
        check(&sides[1], &sides[0]);
        if (argc > 3) {
            ask_for_access(&sides[0]);
            ask_for_access(&sides[1]);
        }
    }
    DEMAND(cuCtxEnablePeerAccess(sides[0].context, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuCtxDisablePeerAccess(sides[0].context));
    DEMAND(cuCtxDisablePeerAccess(sides[0].context) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuMemFree_v2(sides[0].at[FIRST])); /* from the other's context */
    puts("0 words wrong");
    return 0;
}
