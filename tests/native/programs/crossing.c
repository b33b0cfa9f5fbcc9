/* Copies and memory sets between two GPUs whose memory is not open to each other.
 *
 *   crossing ROUNDS [moiety]     (0: until SIGUSR1)
 *
 * The driver finds memory of cuMemAlloc from everywhere. In each round the words of both GPUs change places, in
 * every way that there is, from either one's context. Exit code 0: every word is right. */
#include "mistakes.h"

typedef unsigned long long u64;

#define BYTES (20 * MIB)
#define WORDS 8192ull
#define PIECE (WORDS * 8)

static CUcontext contexts[2];
static CUstream streams[2];
static CUdeviceptr at[2], small[2], managed;
static u64 words[WORDS], seen[WORDS];

static void demand(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "crossing.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define DEMAND(condition) demand((condition) != 0, __LINE__, #condition)

static void is_there(CUdeviceptr address, int owner, u64 bytes, int line)
{
    OK(cuCtxSetCurrent(contexts[owner]));
    memset(seen, 0xee, sizeof(seen));
    OK(cuMemcpyDtoH_v2(seen, address, bytes));
    for (u64 i = 0; i < bytes / 8; i++) {
        if (seen[i] != words[i]) {
            printf("line %d: word %llu is wrong\n", line, i);
            exit(3);
        }
    }
}
#define IS_THERE(address, owner, bytes) is_there(address, owner, bytes, __LINE__)

/* New words, on one GPU, from its own context. */
static void renew(int own)
{
    static u64 key;
    key++;
    for (u64 i = 0; i < WORDS; i++) {
        words[i] = words[i] * 6364136223846793005ull + i + key;
    }
    OK(cuCtxSetCurrent(contexts[own]));
    OK(cuMemcpyHtoD_v2(at[own], words, PIECE));
}

static CUDA_MEMCPY3D rows(CUdeviceptr dst, CUdeviceptr src)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = src,
                           .srcPitch = 4096,
                           .srcHeight = 4,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = dst,
                           .dstPitch = 4096,
                           .dstHeight = 4,
                           .WidthInBytes = 4096,
                           .Height = 4,
                           .Depth = 4};
}

static CUDA_MEMCPY2D plane(CUdeviceptr dst, CUdeviceptr src)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = src,
                           .srcPitch = 8192,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = dst,
                           .dstPitch = 8192,
                           .WidthInBytes = 8192,
                           .Height = 2};
}

/* From the GPU `from` to the other, with `here` current. */
static void copy(int from, int here)
{
    CUdeviceptr dst = at[!from] + 8 * MIB, src = at[from];
    CUstream stream = streams[here];
    CUDA_MEMCPY3D deep = rows(dst, src);
    CUDA_MEMCPY2D flat = plane(dst, src);
    CUdeviceptr dsts[2] = {dst, small[!from]}, srcs[2] = {src, src};
    size_t sizes[2] = {PIECE, 4096}, first = 0, failed = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
#define FRESH(call, bytes)               \
    renew(from);                         \
    OK(cuCtxSetCurrent(contexts[here])); \
    OK(call);                            \
    OK(cuCtxSynchronize());              \
    IS_THERE(dst, !from, bytes)
    FRESH(cuMemcpy(dst, src, PIECE), PIECE);
    FRESH(cuMemcpyAsync(dst, src, PIECE, stream), PIECE);
    FRESH(cuMemcpyDtoD_v2(dst, src, PIECE), PIECE);
    FRESH(cuMemcpyDtoDAsync_v2(dst, src, PIECE, CU_STREAM_PER_THREAD), PIECE);
    FRESH(cuMemcpyDtoDAsync_v2(dst, src, PIECE, NULL), PIECE);
    FRESH(cuMemcpyPeer(dst, contexts[!from], src, contexts[from], PIECE), PIECE);
    FRESH(cuMemcpy3D_v2(&deep), PIECE);
    FRESH(cuMemcpy3DAsync_v2(&deep, stream), PIECE);
    FRESH(cuMemcpy2D_v2(&flat), 16384);
    FRESH(cuMemcpy2DAsync_v2(&flat, stream), 16384);
    FRESH(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, &failed, stream), PIECE);
    IS_THERE(small[!from], !from, 4096);
    DEMAND(failed == ~0ull);
    FRESH(cuMemcpy(managed, src, PIECE), 0);
    IS_THERE(managed, here, PIECE);
    OK(cuCtxSetCurrent(contexts[here]));
    OK(cuMemsetD8_v2(dst, 0, PIECE));
    OK(cuCtxSynchronize()); /* the stream does not wait for the default one */
    OK(cuMemcpyAsync(dst, managed, PIECE, stream));
    OK(cuStreamSynchronize(stream));
    IS_THERE(dst, !from, PIECE);
}

/* With the memory of one GPU, from the other's context. */
static void reach(int owner)
{
    CUdeviceptr far = at[owner] + 4 * MIB;
    CUstream stream = streams[!owner];
    static u64 back[WORDS];
    renew(!owner);
    OK(cuCtxSetCurrent(contexts[!owner]));
    OK(cuMemcpyHtoD_v2(far, words, PIECE));
    OK(cuMemcpyDtoH_v2(back, far, PIECE));
    DEMAND(memcmp(back, words, PIECE) == 0);
    OK(cuMemsetD32_v2(far, 7, PIECE / 4));
    OK(cuMemcpyDtoH_v2(back, far, PIECE));
    DEMAND(back[0] == 0x700000007 && back[WORDS - 1] == 0x700000007);
    /* What is in a stream stays in order, wherever it is done. */
    OK(cuMemsetD8Async(far, 1, PIECE, stream));
    OK(cuMemcpyHtoDAsync_v2(far, words, PIECE, stream));
    OK(cuMemcpyDtoDAsync_v2(at[!owner] + 2 * MIB, far, PIECE, stream));
    OK(cuMemsetD8Async(far, 1, 4096, stream));
    OK(cuMemcpyDtoHAsync_v2(back, at[!owner] + 2 * MIB, PIECE, stream));
    OK(cuStreamSynchronize(stream));
    DEMAND(memcmp(back, words, PIECE) == 0);
    OK(cuMemcpyDtoHAsync_v2(back, far, 4096, stream));
    OK(cuStreamSynchronize(stream));
    DEMAND(back[0] == 0x101010101010101);
}

/* Recorded from a stream, and made by hand. */
static void graphs(int from, int here)
{
    CUdeviceptr dst = at[!from] + 12 * MIB, src = at[from];
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUDA_MEMCPY3D deep = rows(dst, src);
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = dst, .pitch = 0, .value = 3, .elementSize = 1, .width = 64, .height = 1};
    renew(from);
    OK(cuCtxSetCurrent(contexts[here]));
    OK(cuStreamBeginCapture_v2(streams[here], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemcpyDtoDAsync_v2(dst, src, PIECE, streams[here]));
    OK(cuStreamEndCapture(streams[here], &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, streams[here]));
    OK(cuStreamSynchronize(streams[here]));
    IS_THERE(dst, !from, PIECE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    renew(from);
    OK(cuCtxSetCurrent(contexts[here]));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, contexts[here]));
    OK(cuGraphAddMemcpyNode(&node, graph, &node, 1, &deep, contexts[here]));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, streams[here]));
    OK(cuStreamSynchronize(streams[here]));
    IS_THERE(dst, !from, PIECE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static unsigned access_of(int owner, int device)
{
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    unsigned long long flags = 77;
    OK(cuMemGetAccess(&flags, &location, at[owner]));
    return (unsigned)flags;
}

/* What peers were allowed is taken from them again, for memory that is there and for what comes later. */
static void allow_and_refuse(void)
{
    CUdeviceptr later;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    unsigned long long flags = 77;
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[0], 0));
    DEMAND(access_of(0, 1) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    DEMAND(access_of(1, 0) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuCtxDisablePeerAccess(contexts[0]));
    DEMAND(access_of(0, 1) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAlloc_v2(&later, 4 * MIB));
    OK(cuMemGetAccess(&flags, &location, later));
    DEMAND(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuMemFree_v2(later));
}

int main(int argc, char **argv)
{
    u64 most = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    signal(SIGUSR1, mistakes_stop);
    OK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        OK(cuCtxSetCurrent(contexts[i]));
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc_v2(&at[i], BYTES));
        OK(cuMemAlloc_v2(&small[i], 4096));
    }
    OK(cuMemAllocManaged(&managed, PIECE, CU_MEM_ATTACH_GLOBAL));
    for (u64 round = 0; !mistakes_enough && (!most || round < most); round++) {
        if (argc > 2) {
            allow_and_refuse();
        }
        for (int from = 0; from < 2; from++) {
            for (int here = 0; here < 2; here++) {
                copy(from, here);
            }
            reach(from);
        }
    }
    for (int from = 0; from < 2; from++) {
        graphs(from, 0);
        graphs(from, 1);
    }
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemFree_v2(at[0])); /* of the other's */
    puts("0 words wrong");
    return 0;
}
