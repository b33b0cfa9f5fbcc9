/* Memory that comes and goes in the order of streams:  pooled KERNELS BYTES SEED POOL
 *
 * POOL: default, kept (the default one, which gives nothing back) or own. Until SIGUSR1 it allocates
 * pieces of all sizes in three streams, up to BYTES, fills each, and checks every word of it, in its
 * own stream or in another that waits for that one, before it is freed there. Prints how often, and
 * how many words were wrong. */
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define STREAMS 3
#define PIECES 40

static volatile sig_atomic_t enough;

static struct piece {
    CUdeviceptr at;
    uint64_t words, seed;
    int stream;
} pieces[PIECES];
static CUstream streams[STREAMS];
static CUdeviceptr errors[STREAMS]; /* counted in each stream apart */
static CUmemoryPool pool;
static uint64_t limit, held, state, checked;

static void stop(int signal)
{
    (void)signal;
    enough = 1;
}

static uint64_t next_random(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

static void allocate(struct piece *piece, int own)
{
    uint64_t bytes = (1ull << (3 + next_random() % 20)) + next_random() % 5000 / 8 * 8;
    if (next_random() % 4 == 0) {
        bytes += next_random() % (limit / 8);
    }
    piece->words = bytes / 8;
    piece->seed = state;
    piece->stream = (int)(next_random() % STREAMS);
    CUstream stream = streams[piece->stream];
    if (held + bytes > limit) {
        return;
    }
    CUresult result = own ? cuMemAllocFromPoolAsync(&piece->at, piece->words * 8, pool, stream)
                          : cuMemAllocAsync(&piece->at, piece->words * 8, stream);
    EXPECT(CUDA_SUCCESS, result);
    LAUNCH(kernel("fill_u64"), stream, &piece->at, &piece->words, &piece->seed);
    held += piece->words * 8;
}

static void check_and_free(struct piece *piece, CUevent event)
{
    int there = (int)(next_random() % STREAMS);
    CUdeviceptr none = 0;
    uint64_t no_steps = 0;
    if (there != piece->stream) {
        OK(cuEventRecord(event, streams[piece->stream]));
        OK(cuStreamWaitEvent(streams[there], event, 0));
    }
    LAUNCH(kernel("check_u64"), streams[there], &piece->at, &piece->words, &piece->seed, &none,
           &no_steps, &errors[there]);
    OK(cuMemFreeAsync(piece->at, streams[there]));
    held -= piece->words * 8;
    piece->at = 0;
    checked++;
}

static uint64_t ask(CUmemPool_attribute what)
{
    uint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, what, &value));
    return value;
}

int main(int argc, char **argv)
{
    uint64_t everything = UINT64_MAX, wrong = 0;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUevent event;
    CHECK(argc == 5);
    setenv("KERNELS", argv[1], 1);
    limit = strtoull(argv[2], NULL, 0);
    state = strtoull(argv[3], NULL, 0) + 1;
    int own = strcmp(argv[4], "own") == 0, keeps = strcmp(argv[4], "kept") == 0;
    signal(SIGUSR1, stop);
    begin();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < STREAMS; i++) {
        OK(cuStreamCreate(&streams[i], i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        OK(cuMemAlloc_v2(&errors[i], 8));
        OK(cuMemsetD8_v2(errors[i], 0, 8));
    }
    OK(own ? cuMemPoolCreate(&pool, &props) : cuDeviceGetDefaultMemPool(&pool, 0));
    if (keeps) {
        OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
    }
    while (!enough) {
        struct piece *piece = &pieces[next_random() % PIECES];
        if (piece->at) {
            check_and_free(piece, event);
        } else {
            allocate(piece, own);
        }
        CHECK(ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= held);
        if (next_random() % 32 == 0) {
            OK(cuStreamSynchronize(streams[next_random() % STREAMS]));
        }
        if (next_random() % 512 == 0) {
            OK(cuMemPoolTrimTo(pool, limit / 2));
        }
    }
    for (int i = 0; i < PIECES; i++) {
        if (pieces[i].at) {
            check_and_free(&pieces[i], event);
        }
    }
    OK(cuCtxSynchronize());
    CHECK(ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    for (int i = 0; i < STREAMS; i++) {
        uint64_t here = 0;
        OK(cuMemcpyDtoH_v2(&here, errors[i], 8));
        wrong += here;
    }
    printf("%llu pieces, %llu words wrong\n", (unsigned long long)checked,
           (unsigned long long)wrong);
    return wrong ? 3 : 0;
}
