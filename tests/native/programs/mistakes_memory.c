/* Every mistake with memory that a driver answers with an error and nothing worse.
 *
 *   mistakes_memory ROUNDS   (0: until SIGUSR1) */
#include <sys/wait.h>
#include <unistd.h>

#include "mistakes.h"

#define NOWHERE ((CUdeviceptr)0x123456000ull)

static CUcontext context;
static char host[4096];

static void allocating(void)
{
    CUdeviceptr at = 0, small = 0;
    size_t pitch = 0;
    SAY(cuMemAlloc_v2(NULL, MIB));
    SAY(cuMemAlloc_v2(&at, 0));
    SAY(cuMemAlloc_v2(&at, 1ull << 45));
    SAY(cuMemAlloc_v2(&at, ~0ull));
    SAY(cuMemAllocPitch_v2(NULL, &pitch, 100, 100, 4));
    SAY(cuMemAllocPitch_v2(&at, NULL, 100, 100, 4));
    SAY(cuMemAllocPitch_v2(&at, &pitch, 0, 100, 4));
    SAY(cuMemAllocPitch_v2(&at, &pitch, 100, 0, 4));
    SAY(cuMemAllocPitch_v2(&at, &pitch, 100, 100, 5));
    SAY(cuMemAllocPitch_v2(&at, &pitch, 1ull << 40, 1ull << 5, 4));
    SAY(cuMemAllocPitch_v2(&at, &pitch, ~0ull, 4, 4));
    SAY(cuMemAllocPitch_v2(&at, &pitch, 1ull << 40, 1ull << 40, 4));
    SAY(cuMemAllocManaged(NULL, MIB, CU_MEM_ATTACH_GLOBAL));
    SAY(cuMemAllocManaged(&at, 0, CU_MEM_ATTACH_GLOBAL));
    SAY(cuMemAllocManaged(&at, MIB, 0));
    SAY(cuMemAllocManaged(&at, MIB, 77));
    SAY(cuMemGetInfo_v2(NULL, &pitch));
    SAY(cuMemGetInfo_v2(&pitch, NULL));
    SAY(cuMemFree_v2(0));
    SAY(cuMemFree_v2(NOWHERE));
    SAY(cuMemFree_v2((CUdeviceptr)(uintptr_t)host));
    SAY(cuMemAlloc_v2(&at, 5 * MIB));
    SAY(cuMemFree_v2(at + 4096));
    SAY(cuMemFree_v2(at + 5 * MIB));
    SAY(cuMemFree_v2(at - 512));
    SAY(cuMemFree_v2(at));
    SAY(cuMemFree_v2(at));
    SAY(cuMemAlloc_v2(&at, 3000));
    SAY(cuMemAlloc_v2(&small, 100));
    SAY(cuMemFree_v2(at + 256));
    SAY(cuMemFree_v2(at + 1));
    SAY(cuMemFree_v2(at));
    SAY(cuMemFree_v2(at));
    SAY(cuMemFree_v2(small));
    SAY(cuMemFree_v2(small));
}

static void host_memory(void)
{
    void *at = NULL;
    CUdeviceptr seen = 0, device = 0;
    unsigned flags = 0;
    SAY(cuMemAlloc_v2(&device, 4 * MIB));
    SAY(cuMemHostAlloc(NULL, 4096, 0));
    SAY(cuMemHostAlloc(&at, 0, 0));
    SAY(cuMemHostAlloc(&at, 4096, 1 << 12));
    SAY(cuMemFreeHost(host));
    SAY(cuMemFreeHost((void *)(uintptr_t)device));
    SAY(cuMemFreeHost(NULL));
    SAY(cuMemHostAlloc(&at, 8192, 0));
    SAY(cuMemFree_v2((CUdeviceptr)(uintptr_t)at));
    SAY(cuMemHostUnregister(at));
    SAY(cuMemHostRegister_v2(at, 4096, 0));
    SAY(cuMemHostGetDevicePointer_v2(&seen, at, 0));
    SAY(cuMemHostGetDevicePointer_v2(NULL, at, 0));
    SAY(cuMemHostGetDevicePointer_v2(&seen, at, 1));
    SAY(cuMemHostGetDevicePointer_v2(&seen, host, 0));
    SAY(cuMemHostGetDevicePointer_v2(&seen, (void *)(uintptr_t)device, 0));
    SAY(cuMemHostGetFlags(&flags, at));
    SAY(cuMemHostGetFlags(&flags, host));
    SAY(cuMemHostGetFlags(NULL, at));
    SAY(cuMemFreeHost((char *)at + 4096));
    SAY(cuMemFreeHost(at));
    SAY(cuMemFreeHost(at));
    SAY(cuMemHostRegister_v2(NULL, 4096, 0));
    SAY(cuMemHostRegister_v2(host, 0, 0));
    SAY(cuMemHostRegister_v2(host, 4096, 1 << 12));
    SAY(cuMemHostRegister_v2((void *)(uintptr_t)device, 4096, 0));
    SAY(cuMemHostRegister_v2(host, 4096, 0));
    SAY(cuMemHostRegister_v2(host, 4096, 0));
    SAY(cuMemHostUnregister(host + 1));
    SAY(cuMemHostUnregister(host));
    SAY(cuMemHostUnregister(host));
    SAY(cuMemHostUnregister((void *)(uintptr_t)device));
    SAY(cuMemHostUnregister(NULL));
    SAY(cuMemFree_v2(device));
}

/* Several copies in one call, of which one is wrong. */
static void batches_at(CUdeviceptr wrong, CUdeviceptr right)
{
    CUstream stream;
    CUdeviceptr dsts[3] = {right, right + 64, wrong}, srcs[3] = {right + 128, right + 192, right};
    CUdeviceptr from[3] = {right, wrong, right};
    size_t sizes[3] = {64, 64, 64}, failed = 77, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, &attributes, &first, 1, &failed, stream));
    TELL(failed);
    SAY(cuMemcpyBatchAsync_v2(dsts, from, sizes, 2, &attributes, &first, 1, stream));
    SAY(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, &failed, stream));
    TELL(failed);
    SAY(cuMemcpyBatchAsync(dsts, srcs, sizes, 0, &attributes, &first, 1, &failed, stream));
    SAY(cuMemcpyBatchAsync(dsts, NULL, sizes, 3, &attributes, &first, 1, NULL, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy_v2(stream));
}

/* Nodes of graphs, added and changed. */
static void nodes_at(CUdeviceptr wrong, CUdeviceptr right)
{
    CUgraph graph;
    CUgraphNode node, copied, set;
    CUgraphExec exec;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = right,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = right + 64,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = right, .pitch = 64, .value = 1, .elementSize = 4, .width = 16, .height = 1};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &copy, context));
    OK(cuGraphAddMemsetNode(&set, graph, &copied, 1, &fill, context));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    copy.dstDevice = wrong;
    fill.dst = wrong;
    CUgraphNodeParams any_copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                  .memcpy = {.copyCtx = context, .copyParams = copy}};
    CUgraphNodeParams any_set = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                 .memset = {wrong, 64, 1, 4, 16, 1, context}};
    SAY(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    SAY(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context));
    SAY(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &any_copy));
    SAY(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &any_set));
    SAY(cuGraphMemcpyNodeSetParams(copied, &copy));
    SAY(cuGraphMemsetNodeSetParams(set, &fill));
    SAY(cuGraphNodeSetParams(copied, &any_copy));
    SAY(cuGraphNodeSetParams(set, &any_set));
    SAY(cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context));
    SAY(cuGraphExecMemsetNodeSetParams(exec, set, &fill, context));
    SAY(cuGraphExecNodeSetParams(exec, copied, &any_copy));
    SAY(cuGraphExecNodeSetParams(exec, set, &any_set));
    SAY(cuGraphLaunch(exec, NULL));
    SAY(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* The copies of one kind, to and from an address where there is nothing (any more). */
static void copies_at(const char *what, CUdeviceptr wrong, CUdeviceptr right)
{
    fprintf(mistakes_out, "%s\n", what);
    SAY(cuMemcpyHtoD_v2(wrong, host, 64));
    SAY(cuMemcpyDtoH_v2(host, wrong, 64));
    SAY(cuMemcpyDtoD_v2(wrong, right, 64));
    SAY(cuMemcpyDtoD_v2(right, wrong, 64));
    SAY(cuMemcpyHtoDAsync_v2(wrong, host, 64, NULL));
    SAY(cuMemcpyDtoHAsync_v2(host, wrong, 64, NULL));
    SAY(cuMemcpyDtoDAsync_v2(right, wrong, 64, CU_STREAM_PER_THREAD));
    SAY(cuMemcpyPeer(wrong, context, right, context, 64));
    SAY(cuMemcpyPeerAsync(right, context, wrong, context, 64, NULL));
    SAY(cuMemsetD8_v2(wrong, 1, 64));
    SAY(cuMemsetD16_v2(wrong, 1, 64));
    SAY(cuMemsetD32_v2(wrong, 1, 64));
    SAY(cuMemsetD8Async(wrong, 1, 64, NULL));
    SAY(cuMemsetD32Async(wrong, 1, 64, CU_STREAM_PER_THREAD));
    SAY(cuMemsetD2D8_v2(wrong, 128, 1, 64, 2));
    SAY(cuMemsetD2D32Async(wrong, 128, 1, 16, 2, NULL));
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = wrong,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 2};
    SAY(cuMemcpy2D_v2(&flat));
    SAY(cuMemcpy2DAsync_v2(&flat, NULL));
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = wrong,
                          .srcPitch = 64,
                          .srcHeight = 2,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = 64,
                          .dstHeight = 2,
                          .WidthInBytes = 64,
                          .Height = 2,
                          .Depth = 2};
    SAY(cuMemcpy3D_v2(&deep));
    SAY(cuMemcpy3DAsync_v2(&deep, NULL));
    CUDA_MEMCPY3D_PEER peers = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = right,
                                .srcContext = context,
                                .srcPitch = 64,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = wrong,
                                .dstContext = context,
                                .dstPitch = 64,
                                .WidthInBytes = 64,
                                .Height = 1,
                                .Depth = 1};
    SAY(cuMemcpy3DPeer(&peers));
    SAY(cuMemcpy3DPeerAsync(&peers, NULL));
    if (wrong !=
        NOWHERE) { /* which a batch takes for the host's, and then there is nothing there */
        batches_at(wrong, right);
    }
    nodes_at(wrong, right);
    SAY(cuCtxSynchronize());
}

static void copying(void)
{
    CUdeviceptr at = 0, freed = 0, small = 0, freed_small = 0;
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuMemAlloc_v2(&small, 3000));
    SAY(cuMemAlloc_v2(&freed_small, 3000));
    SAY(cuMemFree_v2(freed_small));
    SAY(cuMemAlloc_v2(&freed, 4 * MIB));
    SAY(cuMemFree_v2(freed));
    copies_at("null", 0, at);
    copies_at("nowhere", NOWHERE, at);
    copies_at("freed", freed, at);
    copies_at("freed, small", freed_small, at);
    copies_at("over its end", at + 4 * MIB - 32, at);
    copies_at("over the end of a small one", small + 3000 - 32, at);
    SAY(cuMemFree_v2(small));
    SAY(cuMemAlloc_v2(&small,
                      2 * MIB + 1000)); /* what is behind it is there, but not the program's */
    copies_at("over an end inside a page", small + 2 * MIB + 1000 - 32, at);
    SAY(cuMemFree_v2(small));
    SAY(cuMemcpyHtoD_v2(at, NULL, 64));
    SAY(cuMemcpyDtoH_v2(NULL, at, 64));
    SAY(cuMemcpyHtoD_v2(at, host, 0));
    SAY(cuMemcpyHtoD_v2(0, NULL, 0));
    SAY(cuMemcpyHtoD_v2(at, host, 5 * MIB));
    SAY(cuMemcpyDtoH_v2(host, at, ~0ull));
    SAY(cuMemsetD8_v2(at, 1, 5 * MIB));
    SAY(cuMemsetD8_v2(at, 1, 0));
    SAY(cuMemsetD16_v2(at + 1, 1, 8));
    SAY(cuMemsetD32_v2(at + 2, 1, 8));
    SAY(cuMemsetD2D32_v2(at, 3, 1, 16, 2));
    SAY(cuMemcpy2D_v2(NULL));
    SAY(cuMemcpy3D_v2(NULL));
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 32,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = at,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 2};
    SAY(cuMemcpy2D_v2(&flat));
    memset(&flat.srcMemoryType, 9, sizeof(flat.srcMemoryType));
    SAY(cuMemcpy2D_v2(&flat));
    SAY(cuMemcpyPeer(at, NULL, at, context, 64));
    SAY(cuMemcpyPeer(at, (CUcontext)host, at, context, 64));
    SAY(cuMemPrefetchAsync(at, 4096, 0, NULL));
    SAY(cuMemPrefetchAsync(NOWHERE, 4096, 0, NULL));
    SAY(cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    SAY(cuMemFree_v2(at));
}

static void asking(void)
{
    CUdeviceptr at = 0, base = 0;
    size_t bytes = 0;
    unsigned long long word = 0;
    CUpointer_attribute two[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUpointer_attribute)no_such()};
    void *words[2] = {&word, &word};
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, 0));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, NOWHERE));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, at + 4 * MIB));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, (CUdeviceptr)(uintptr_t)host));
    SAY(cuMemGetAddressRange_v2(NULL, NULL, at));
    SAY(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SAY(cuPointerGetAttribute(&word, (CUpointer_attribute)no_such(), at));
    SAY(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, NOWHERE));
    SAY(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
    SAY(cuPointerGetAttributes(0, two, words, at));
    SAY(cuPointerGetAttributes(1, NULL, words, at));
    SAY(cuPointerGetAttributes(1, two, NULL, at));
    SAY(cuPointerGetAttributes(2, two, words, at));
    SAY(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SAY(cuPointerSetAttribute(&word, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    SAY(cuPointerSetAttribute(&word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, NOWHERE));
    SAY(cuMemFree_v2(at));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, at));
    SAY(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SAY(cuIpcGetMemHandle((CUipcMemHandle *)host, at));
}

static void pooled(void)
{
    CUdeviceptr at = 0, other = 0, small = 0;
    CUmemoryPool pool = NULL, gone = NULL, mine = NULL;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    unsigned long long word = 0;
    SAY(cuMemAllocAsync(NULL, 4096, NULL));
    SAY(cuMemAllocAsync(&at, 0, NULL));
    SAY(cuMemAllocAsync(&at, 1ull << 45, NULL));
    SAY(cuMemAllocAsync(&at, 4096, (CUstream)host));
    SAY(cuMemFreeAsync(0, NULL));
    SAY(cuMemFreeAsync(NOWHERE, NULL));
    SAY(cuMemAlloc_v2(&other, 4 * MIB)); /* before the other is freed, or it gets its place */
    SAY(cuMemAllocAsync(&at, 4 * MIB, NULL));
    SAY(cuMemFreeAsync(at + 512, NULL));
    SAY(cuMemFreeAsync(at, (CUstream)host));
    copies_at("over the end of a pool's", at + 4 * MIB - 32, other);
    SAY(cuMemAllocAsync(&small, 3000, NULL));
    copies_at("over the end of a small one of a pool", small + 3000 - 32, other);
    SAY(cuMemFreeAsync(small, NULL));
    copies_at("freed just now, of a pool", small, other);
    SAY(cuMemFree_v2(at + 512));
    SAY(cuMemFreeAsync(at, NULL));
    SAY(cuMemFreeAsync(at, NULL));
    SAY(cuMemFree_v2(at));
    SAY(cuCtxSynchronize());
    SAY(cuDeviceGetDefaultMemPool(&pool, 0));
    SAY(cuMemPoolTrimTo(pool, 0));
    copies_at("freed, of a pool", at, other);
    SAY(cuMemFreeAsync(other, NULL));
    SAY(cuMemFree_v2(other));
    SAY(cuMemPoolDestroy(pool));
    SAY(cuMemPoolDestroy(NULL));
    SAY(cuMemPoolDestroy((CUmemoryPool)host));
    SAY(cuMemPoolCreate(NULL, &props));
    SAY(cuMemPoolCreate(&mine, NULL));
    props.location.id = 17;
    SAY(cuMemPoolCreate(&mine, &props));
    props.location.id = 0;
    SAY(cuMemPoolCreate(&mine, &props));
    SAY(cuMemAllocFromPoolAsync(&at, 4096, (CUmemoryPool)host, NULL));
    SAY(cuMemAllocFromPoolAsync(&at, 4096, mine, NULL));
    SAY(cuMemPoolGetAttribute(mine, (CUmemPool_attribute)no_such(), &word));
    SAY(cuMemPoolGetAttribute(mine, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
    SAY(cuMemPoolSetAttribute(mine, (CUmemPool_attribute)no_such(), &word));
    SAY(cuMemPoolTrimTo((CUmemoryPool)host, 0));
    gone = mine;
    SAY(cuMemPoolDestroy(mine)); /* with memory alive */
    SAY(cuMemPoolDestroy(gone));
    SAY(cuMemAllocFromPoolAsync(&other, 4096, gone, NULL));
    SAY(cuMemPoolTrimTo(gone, 0));
    SAY(cuMemFreeAsync(at, NULL));
    SAY(cuMemFreeAsync(at, NULL));
    SAY(cuCtxSynchronize());
}

static void make_all(void)
{
    allocating();
    host_memory();
    copying();
    asking();
    pooled();
}

int main(int argc, char **argv)
{
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    CUdeviceptr ballast = mistakes_ballast(48 * MIB);
    int code = mistakes_repeat(make_all, argc > 1 ? atol(argv[1]) : 1);
    return mistakes_ballast_is_whole(ballast, 48 * MIB) ? code : 2;
}
