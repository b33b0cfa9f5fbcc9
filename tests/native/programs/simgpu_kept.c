/* Arrays, and memory that graphs allocate: what the driver lays out itself.  simgpu_kept [hold]
 *
 * With `hold` it goes on until SIGUSR1, launching and copying, and checks every word. */
#include <signal.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define WORDS (MIB / 8)

static volatile sig_atomic_t enough;

static void stop(int signal)
{
    (void)signal;
    enough = 1;
}

static uint64_t graph_bytes(CUgraphMem_attribute what)
{
    uint64_t value = 0;
    OK(cuDeviceGetGraphMemAttribute(0, what, &value));
    return value;
}

/* ---- arrays ---- */

static void flat_arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR form = {100, 50, CU_AD_FORMAT_FLOAT, 2}, again;
    unsigned char there[100 * 8 * 50], back[sizeof(there)];
    CUarray array;
    OK(cuArrayCreate_v2(&array, &form));
    OK(cuArrayGetDescriptor_v2(&again, array));
    CHECK(memcmp(&form, &again, sizeof(form)) == 0);
    for (size_t i = 0; i < sizeof(there); i++) {
        there[i] = (unsigned char)(i * 7);
    }
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = there,
                          .srcPitch = 800,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = 800,
                          .Height = 50};
    OK(cuMemcpy2D_v2(&copy));
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = array,
                         .srcXInBytes = 80,
                         .srcY = 10,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = back,
                         .dstPitch = 400,
                         .WidthInBytes = 400,
                         .Height = 20};
    OK(cuMemcpy2D_v2(&out));
    for (size_t y = 0; y < 20; y++) {
        CHECK(memcmp(back + y * 400, there + (y + 10) * 800 + 80, 400) == 0);
    }
    out.Height = 41; /* beyond its end */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&out));
    OK(cuMemcpyAtoH_v2(back, array, 16, 100));
    CHECK(memcmp(back, there + 16, 100) == 0);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(back, array, 790, 100));
    OK(cuArrayDestroy(array));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
    form.NumChannels = 3;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &form));
}

static void deep_arrays(void)
{
    CUDA_ARRAY3D_DESCRIPTOR form = {64, 32, 8, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0}, again;
    CUmipmappedArray levels;
    CUarray array, level;
    CUdeviceptr at;
    uint32_t word = 0;
    OK(cuArray3DCreate_v2(&array, &form));
    OK(cuMemAlloc_v2(&at, 64ull * 32 * 8 * 4));
    OK(cuMemsetD32_v2(at, 77, 64ull * 32 * 8));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = at,
                          .srcPitch = 256,
                          .srcHeight = 32,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = 256,
                          .Height = 32,
                          .Depth = 8};
    OK(cuMemcpy3D_v2(&copy));
    CUDA_MEMCPY3D one = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = array,
                         .srcXInBytes = 252,
                         .srcY = 31,
                         .srcZ = 7,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = &word,
                         .WidthInBytes = 4,
                         .Height = 1,
                         .Depth = 1};
    OK(cuMemcpy3D_v2(&one));
    CHECK(word == 77);
    OK(cuMipmappedArrayCreate(&levels, &form, 3));
    OK(cuMipmappedArrayGetLevel(&level, levels, 2));
    OK(cuArray3DGetDescriptor_v2(&again, level));
    CHECK(again.Width == 16 && again.Height == 8 && again.Depth == 2);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, levels, 3));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
    OK(cuMipmappedArrayDestroy(levels));
    OK(cuArrayDestroy(array));
    OK(cuMemFree_v2(at));
}

/* Running out is an ordinary error, and nothing is lost by it. */
static void arrays_run_out(void)
{
    CUDA_ARRAY_DESCRIPTOR form = {16384, 2048, CU_AD_FORMAT_UNSIGNED_INT8, 1}; /* 32 MiB */
    CUarray arrays[64];
    size_t before, after, total;
    int count = 0;
    OK(cuMemGetInfo_v2(&before, &total));
    CUresult result;
    while ((result = cuArrayCreate_v2(&arrays[count], &form)) == CUDA_SUCCESS) {
        CHECK(++count < 64);
    }
    CHECK(result == CUDA_ERROR_OUT_OF_MEMORY && count > 1);
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(after <= before - (size_t)count * 32 * MIB);
    while (count) {
        OK(cuArrayDestroy(arrays[--count]));
    }
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(after == before);
}

/* ---- graphs ---- */

static CUgraphExec captured(CUstream stream, CUdeviceptr kept, CUdeviceptr errors)
{
    CUgraph graph;
    CUgraphExec exec, second;
    CUdeviceptr at, none = 0;
    uint64_t words = WORDS, seed = 5, no_steps = 0;
    size_t count = 0;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemAllocAsync(&at, MIB, stream));
    LAUNCH(kernel("fill_u64"), stream, &at, &words, &seed);
    OK(cuMemcpyDtoDAsync_v2(kept, at, MIB, stream));
    LAUNCH(kernel("check_u64"), stream, &at, &words, &seed, &none, &no_steps, &errors);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(kept, stream)); /* no graph's */
    OK(cuMemFreeAsync(at, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 5);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static void graphs(CUstream stream, CUdeviceptr errors)
{
    CUdeviceptr kept;
    OK(cuMemAlloc_v2(&kept, MIB));
    CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
    CUgraphExec exec = captured(stream, kept, errors);
    for (int i = 0; i < 3; i++) {
        OK(cuGraphLaunch(exec, stream));
    }
    OK(cuStreamSynchronize(stream));
    CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= MIB);
    OK(cuDeviceGraphMemTrim(0));
    CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuMemFree_v2(kept));
}

/* What a graph allocates and does not free is the program's, until it frees it. */
static void left_by_graph(CUstream stream)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 4 * MIB};
    CUgraph graph, copy;
    CUgraphNode node;
    CUgraphExec exec;
    unsigned char byte = 0;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuMemsetD8Async(params.dptr, 9, 4 * MIB, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream)); /* not freed yet */
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&byte, params.dptr + 4 * MIB - 1, 1));
    CHECK(byte == 9 && graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 4 * MIB);
    OK(cuMemFreeAsync(params.dptr, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree_v2(params.dptr));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(params.dptr));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* ---- beside others ---- */

static uint64_t hold(CUstream stream, CUdeviceptr errors)
{
    static uint64_t back[WORDS];
    CUDA_ARRAY_DESCRIPTOR form = {1024, 1024, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray array;
    CUdeviceptr kept, more;
    uint64_t rounds = 0, words = WORDS, seed = 5, wrong = 0, no_steps = 0;
    CUdeviceptr none = 0;
    OK(cuArrayCreate_v2(&array, &form));
    OK(cuMemAlloc_v2(&kept, MIB));
    OK(cuMemAlloc_v2(&more, 40 * MIB)); /* so that two of these do not fit */
    CUgraphExec exec = captured(stream, kept, errors);
    signal(SIGUSR1, stop);
    for (size_t i = 0; i < WORDS; i++) {
        back[i] = i * 3;
    }
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = back,
                        .srcPitch = 1024,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = array,
                        .WidthInBytes = 1024,
                        .Height = 1024};
    OK(cuMemcpy2D_v2(&in));
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = array,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = back,
                         .dstPitch = 1024,
                         .WidthInBytes = 1024,
                         .Height = 1024};
    OK(cuMemsetD32_v2(more, 11, 10 * MIB));
    while (!enough) {
        OK(cuGraphLaunch(exec, stream));
        LAUNCH(kernel("check_u64"), stream, &kept, &words, &seed, &none, &no_steps, &errors);
        OK(cuStreamSynchronize(stream));
        memset(back, 0, sizeof(back));
        OK(cuMemcpy2D_v2(&out));
        for (size_t i = 0; i < WORDS; i++) {
            wrong += back[i] != i * 3;
        }
        rounds++;
    }
    OK(cuMemcpyDtoH_v2(back, more + 39 * MIB, MIB));
    for (size_t i = 0; i < WORDS; i++) {
        wrong += back[i] != (11ull << 32 | 11);
    }
    uint64_t there = 0;
    OK(cuMemcpyDtoH_v2(&there, errors, 8));
    wrong += there;
    printf("%llu rounds, %llu words wrong\n", (unsigned long long)rounds,
           (unsigned long long)wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    CUstream stream;
    CUdeviceptr errors;
    uint64_t wrong = 0;
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&errors, 8));
    OK(cuMemsetD8_v2(errors, 0, 8));
    kernel("fill_u64"); /* loading is not allowed while something is captured */
    if (argc == 2 && strcmp(argv[1], "hold") == 0) {
        return hold(stream, errors) ? 3 : 0;
    }
    flat_arrays();
    deep_arrays();
    arrays_run_out();
    graphs(stream, errors);
    left_by_graph(stream);
    OK(cuMemcpyDtoH_v2(&wrong, errors, 8));
    CHECK(wrong == 0);
    printf("ok\n");
    return 0;
}
