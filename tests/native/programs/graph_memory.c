/* Graphs that allocate memory: many of them, one after the other, beside each other, given up and trimmed.
 *
 *   graph_memory   with KERNELS; the GPU's memory is a few times that of one graph */
#include "simgpu_check.h"

#define MIB (1ull << 20)
#define BYTES (8 * MIB)
#define ROUNDS 40
#define BESIDE 3

static CUstream stream;

static unsigned long long free_bytes(void)
{
    size_t left, all;
    OK(cuMemGetInfo_v2(&left, &all));
    return left;
}

static CUgraph captured(size_t bytes)
{
    CUgraph graph;
    CUdeviceptr at;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemAllocAsync(&at, bytes, stream));
    OK(cuMemsetD8Async(at, 5, bytes, stream));
    OK(cuMemFreeAsync(at, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUgraph built(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = bytes};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = params};
    CUgraph graph;
    CUgraphNode node, end;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    OK(cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&node, NULL, NULL, 0, &params));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &any));
    return graph;
}

static void launch(CUgraphExec exec)
{
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

/* Each is gone before the next is made, in every way that a graph can go. */
static void one_after_the_other(void)
{
    unsigned long long before = free_bytes();
    for (int i = 0; i < ROUNDS; i++) {
        CUgraph graph = i % 2 ? captured(BYTES) : built(BYTES);
        CUgraphExec exec;
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        if (i % 4 > 1) {
            OK(cuGraphDestroy(graph));
        }
        if (i % 8 > 3) {
            OK(cuGraphUpload(exec, stream));
        }
        launch(exec);
        launch(exec);
        OK(cuGraphExecDestroy(exec));
        if (i % 4 <= 1) {
            OK(cuGraphDestroy(graph));
        }
    }
    OK(cuDeviceGraphMemTrim(0));
    CHECK(free_bytes() == before);
}

/* Graphs that are made, and never launched. */
static void given_up(void)
{
    unsigned long long before = free_bytes();
    CUdeviceptr at;
    CUgraph graph = NULL;
    CUgraphExec exec;
    for (int i = 0; i < ROUNDS; i++) {
        graph = i % 2 ? captured(BYTES) : built(BYTES);
        CHECK(free_bytes() + BYTES <= before);
        if (i % 4 > 1) {
            OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
            OK(cuGraphExecDestroy(exec));
        }
        OK(cuGraphDestroy(graph));
    }
    for (int i = 0; i < ROUNDS; i++) { /* a capture that fails has no graph in the end */
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(cuMemAllocAsync(&at, BYTES, stream));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    }
    for (int i = 0; i < ROUNDS; i++) {
        CUstream other;
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(cuMemAllocAsync(&at, BYTES, other));
        OK(cuStreamDestroy_v2(other));
    }
    CHECK(free_bytes() == before);
}

/* What was trimmed counts again when it is launched again. */
static void trimmed(void)
{
    unsigned long long before = free_bytes();
    CUgraphExec execs[BESIDE];
    for (int i = 0; i < BESIDE; i++) {
        CUgraph graph = captured(BYTES);
        OK(cuGraphInstantiateWithFlags(&execs[i], graph, 0));
        OK(cuGraphDestroy(graph));
        launch(execs[i]);
    }
    for (int round = 0; round < 3; round++) {
        CHECK(free_bytes() + BESIDE * BYTES <= before);
        OK(cuDeviceGraphMemTrim(0));
        CHECK(free_bytes() == before);
        for (int i = 0; i < BESIDE; i++) {
            launch(execs[i]);
        }
    }
    for (int i = 0; i < BESIDE; i++) {
        OK(cuGraphExecDestroy(execs[i]));
    }
    OK(cuDeviceGraphMemTrim(0));
    CHECK(free_bytes() == before);
}

/* More than there is room for is refused, and costs nothing. */
static void too_much(void)
{
    unsigned long long before = free_bytes();
    CUdeviceptr held, at;
    CUgraph graph;
    CUgraphExec exec;
    graph = captured(BYTES);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    launch(exec);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&at, before + MIB, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    CHECK(free_bytes() == before);
    OK(cuMemAlloc_v2(&held, before - 4 * MIB));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, stream)); /* its memory was trimmed */
    OK(cuMemFree_v2(held));
    launch(exec);
    OK(cuGraphExecDestroy(exec));
    OK(cuDeviceGraphMemTrim(0));
    CHECK(free_bytes() == before);
}

/* Memory that a stream frees in a capture is there for what it allocates behind that, and for nothing else. */
static void freed_in_the_capture(void)
{
    unsigned long long before = free_bytes();
    CUdeviceptr at, kept;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    CUstream other;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < ROUNDS; i++) { /* together they are larger than the GPU */
        OK(cuMemAllocAsync(&at, BYTES - (size_t)i * 1024, stream));
        OK(cuMemsetD8Async(at, (unsigned char)i, 1024, stream));
        OK(cuMemFreeAsync(at, stream));
    }
    CHECK(free_bytes() == before - BYTES);
    OK(cuMemAllocAsync(&kept, BYTES, stream)); /* the whole again */
    CHECK(free_bytes() == before - BYTES);
    OK(cuMemAllocAsync(&at, BYTES, stream)); /* and one beside it */
    CHECK(free_bytes() == before - 2 * BYTES);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemFreeAsync(kept, stream));
    OK(cuMemAllocAsync(&kept, BYTES, other)); /* it runs beside the free */
    CHECK(free_bytes() == before - 3 * BYTES);
    OK(cuMemFreeAsync(kept, other));
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemFreeAsync(at, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    launch(exec);
    CHECK(free_bytes() == before - 3 * BYTES); /* as the driver says */
    OK(cuGraphExecDestroy(exec));
    OK(cuDeviceGraphMemTrim(0));
    OK(cuStreamDestroy_v2(other));
    OK(cuEventDestroy_v2(event));
    CHECK(free_bytes() == before);
}

int main(void)
{
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    one_after_the_other();
    given_up();
    trimmed();
    too_much();
    freed_in_the_capture();
    puts("ok");
    return 0;
}
