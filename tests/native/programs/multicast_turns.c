/* A program on two GPUs that makes a multicast object of memory that was away before, as NCCL does for NVLS.
 *
 *   multicast_turns KERNELS
 *
 * It begins without one. SIGUSR1 has it go on, after the round that it is in: it makes the object, binds and maps
 * it; then it ends the object again; then it stops. Exit code 0: all words were right in every round. */
#include "mistakes.h"

typedef unsigned long long u64;

#define BYTES (24 * MIB) /* of each GPU; in several chunks */
#define WORDS (BYTES / 8)
#define HALF (BYTES / 2)
#define LOOKED 4096ull /* words of one round that the host looks at */

enum { BEFORE, BOUND, AFTER, STOP };

static struct side {
    CUcontext context;
    CUfunction step, fill, count, sum;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at, sums;
    u64 model[LOOKED]; /* every word that is looked at */
} sides[2];
static CUmemGenericAllocationHandle team;
static CUdeviceptr both; /* where the object is mapped */
static volatile sig_atomic_t told;

static void on_signal(int number)
{
    (void)number;
    told++;
}

static void run(CUfunction kernel, CUdeviceptr at, u64 second, u64 third)
{
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &second, &third}, NULL));
}

/* The words that are looked at lie all over the memory: in every chunk. */
static u64 place(u64 i) { return i * (WORDS / LOOKED); }

static void demand(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "multicast_turns: %s\n", what);
        exit(3);
    }
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, u64 bytes)
{
    CUdeviceptr at;
    CUmemAccessDesc access[2];
    for (int i = 0; i < 2; i++) {
        access[i] =
            (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    OK(cuMemMap(at, bytes, 0, handle, 0));
    OK(cuMemSetAccess(at, bytes, access, 2));
    return at;
}

static void begin(CUdevice own, const char *kernels)
{
    struct side *side = &sides[own];
    CUmodule module;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, own}};
    OK(cuDevicePrimaryCtxRetain(&side->context, own));
    OK(cuCtxSetCurrent(side->context));
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&side->step, module, "step_u64"));
    OK(cuModuleGetFunction(&side->fill, module, "fill_u64"));
    OK(cuModuleGetFunction(&side->count, module, "multimem_count_u64"));
    OK(cuModuleGetFunction(&side->sum, module, "multimem_sum_u64"));
    OK(cuMemCreate(&side->memory, BYTES, &prop, 0));
    side->at = map(side->memory, BYTES);
    OK(cuMemAlloc_v2(&side->sums, BYTES));
}

/* Every word gets a new value, on each GPU another one. */
static void change(struct side *side, u64 k)
{
    OK(cuCtxSetCurrent(side->context));
    run(side->step, side->at, WORDS, k);
    OK(cuCtxSynchronize());
    for (u64 i = 0; i < LOOKED; i++) {
        side->model[i] = side->model[i] * 6364136223846793005ull + k + place(i);
    }
}

static u64 *words_at(CUdeviceptr at)
{
    static u64 words[WORDS];
    OK(cuMemcpyDtoH_v2(words, at, BYTES));
    return words;
}

static void check(const struct side *side)
{
    OK(cuCtxSetCurrent(side->context));
    const u64 *words = words_at(side->at);
    for (u64 i = 0; i < LOOKED; i++) {
        demand(words[place(i)] == side->model[i], "a word of its own is wrong");
    }
}

/* The words of the second GPU are bound the other way round: its halves change places. */
static u64 place_bound(CUdevice own, u64 i) { return own ? (i + LOOKED / 2) % LOOKED : i; }

/* The sums over both GPUs are read by one of them; then the words are written to both by the other. */
static void reduce_and_write(CUdevice own, u64 first)
{
    struct side *side = &sides[own];
    OK(cuCtxSetCurrent(side->context));
    run(side->sum, side->sums, both, WORDS);
    const u64 *words = words_at(side->sums);
    for (u64 i = 0; i < LOOKED; i++) {
        u64 sum = sides[0].model[i] + sides[1].model[place_bound(1, i)];
        demand(words[place(i)] == sum, "a sum is wrong");
    }
    side = &sides[!own];
    OK(cuCtxSetCurrent(side->context));
    run(side->count, both, WORDS, first);
    OK(cuCtxSynchronize());
    for (u64 i = 0; i < LOOKED; i++) {
        sides[0].model[i] = first + place(i);
        sides[1].model[place_bound(1, i)] = first + place(i);
    }
}

static void bind(void)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = BYTES};
    size_t step = 0;
    OK(cuMulticastGetGranularity(&step, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED));
    demand(step && HALF % step == 0, "the halves are no multiples of the granularity");
    OK(cuMulticastCreate(&team, &prop));
    OK(cuMulticastAddDevice(team, 0));
    OK(cuMulticastAddDevice(team, 1));
    OK(cuMulticastBindMem(team, 0, sides[0].memory, 0, BYTES, 0));
    OK(cuMulticastBindMem_v2(team, 1, 0, sides[1].memory, HALF, HALF, 0));
    OK(cuMulticastBindAddr(team, HALF, sides[1].at, HALF, 0));
    both = map(team, BYTES);
}

static void unbind(void)
{
    OK(cuMulticastUnbind(team, 0, 0, BYTES));
    OK(cuMulticastUnbind(team, 1, 0, HALF));
    OK(cuMulticastUnbind(team, 1, HALF, HALF));
    OK(cuMemUnmap(both, BYTES));
    OK(cuMemAddressFree(both, BYTES));
    OK(cuMemRelease(team));
}

static void one_round(int phase, u64 round)
{
    change(&sides[0], round);
    change(&sides[1], round + 7);
    if (phase == BOUND) {
        reduce_and_write((CUdevice)(round % 2), round * 1000003);
    }
    check(&sides[0]);
    check(&sides[1]);
}

static void first_words(struct side *side)
{
    OK(cuCtxSetCurrent(side->context));
    run(side->fill, side->at, WORDS, 5);
    const u64 *words = words_at(side->at);
    for (u64 i = 0; i < LOOKED; i++) {
        side->model[i] = words[place(i)];
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: multicast_turns KERNELS\n");
        return 2;
    }
    signal(SIGUSR1, on_signal);
    OK(cuInit(0));
    begin(0, argv[1]);
    begin(1, argv[1]);
    first_words(&sides[0]);
    first_words(&sides[1]);
    int phase = BEFORE;
    for (u64 round = 1; phase != STOP; round++) {
        one_round(phase, round);
        if (told > phase) {
            phase++;
            if (phase == BOUND) {
                bind();
            } else if (phase == AFTER) {
                unbind();
            }
            printf("phase %d\n", phase);
            fflush(stdout);
        }
    }
    puts("0 words wrong");
    return 0;
}
