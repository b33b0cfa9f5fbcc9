/* A capture that is held open for long while others work:  captures_held MODE STREAM BYTES SECONDS
 *
 * One thread holds a capture open for all the time and adds to it; a second replays a graph with nodes of
 * five kinds and looks at its result each time; a third submits to streams of its own. Prints what does
 * not depend on time, so with and without us it prints the same. Exit code 0: all was right. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "simgpu_check.h"

#define WORDS ((size_t)4096)

static CUcontext context;
static CUfunction fill, step, touch;
static CUdeviceptr large;
static uint64_t large_words;
static _Atomic int over;
static _Atomic long replays, launches;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void count(void *data) { ++*(int *)data; }

/* memset -> fill -> (child: step, step) -> copy to the host -> host function */
static void make_graph(CUgraph *graph, CUdeviceptr at, uint64_t *host, int *calls)
{
    static uint64_t words = WORDS, seed = 5, one = 1, two = 2;
    CUgraphNode nodes[6];
    CUgraph child;
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = at, .value = 0, .elementSize = 4, .width = WORDS * 2, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = at,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .WidthInBytes = WORDS * 8,
                          .Height = 1,
                          .Depth = 1};
    CUDA_HOST_NODE_PARAMS call = {count, calls};
    CUDA_KERNEL_NODE_PARAMS launch = {.func = fill,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = (void *[]){&at, &words, &seed}};
    OK(cuGraphCreate(graph, 0));
    OK(cuGraphCreate(&child, 0));
    OK(cuGraphAddMemsetNode(&nodes[0], *graph, NULL, 0, &set, context));
    OK(cuGraphAddKernelNode_v2(&nodes[1], *graph, &nodes[0], 1, &launch));
    launch.func = step;
    launch.kernelParams = (void *[]){&at, &words, &one};
    OK(cuGraphAddKernelNode_v2(&nodes[4], child, NULL, 0, &launch));
    launch.kernelParams = (void *[]){&at, &words, &two};
    OK(cuGraphAddKernelNode_v2(&nodes[5], child, &nodes[4], 1, &launch));
    OK(cuGraphAddChildGraphNode(&nodes[2], *graph, &nodes[1], 1, child));
    OK(cuGraphAddMemcpyNode(&nodes[3], *graph, &nodes[2], 1, &copy, context));
    OK(cuGraphAddHostNode(&nodes[4], *graph, &nodes[3], 1, &call));
    OK(cuGraphDestroy(child));
}

static uint64_t expected_word(uint64_t i) /* seed 5, then two steps */
{
    uint64_t x = 5 + i + 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    x = x * 6364136223846793005ull + 1 + i;
    return x * 6364136223846793005ull + 2 + i;
}

struct replay {
    CUgraphExec exec;
    uint64_t *host;
    int calls;
};

static void *replay(void *argument)
{
    struct replay *own = argument;
    CUstream stream;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!over) {
        memset(own->host, 0xee, WORDS * 8);
        OK(cuGraphLaunch(own->exec, stream));
        OK(cuStreamSynchronize(stream));
        CHECK(own->calls == ++replays);
        for (uint64_t i = 0; i < WORDS; i++) {
            CHECK(own->host[i] == expected_word(i));
        }
        usleep(500);
    }
    return NULL;
}

static void *work(void *unused)
{
    CUstream streams[2] = {CU_STREAM_PER_THREAD};
    uint64_t stride = 512, half = large_words / 2;
    CUdeviceptr at[2] = {large, large + half * 8};
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    while (!over) {
        LAUNCH(touch, streams[launches % 2], &at[launches % 2], &half, &stride);
        if (++launches % 8 == 0) {
            OK(cuStreamSynchronize(streams[0]));
            OK(cuStreamSynchronize(streams[1]));
        }
        usleep(200);
    }
    OK(cuStreamSynchronize(streams[0]));
    OK(cuStreamSynchronize(streams[1]));
    return unused;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"global", "local", "relaxed"};
    uint64_t words = WORDS, zero = 0, sum = 0, seed = 1, found;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    struct replay own = {0};
    CUstream stream = CU_STREAM_PER_THREAD;
    CUdeviceptr at, captured;
    CUgraph graph;
    CUgraphExec exec;
    pthread_t threads[2];
    CHECK(argc == 5);
    while (strcmp(argv[1], modes[mode]) != 0) {
        mode++;
    }
    context = begin();
    fill = kernel("fill_u64");
    step = kernel("step_u64");
    touch = kernel("touch_u64");
    large_words = strtoull(argv[3], NULL, 10) / 8;
    OK(cuMemAlloc_v2(&large, large_words * 8));
    OK(cuMemAlloc_v2(&at, WORDS * 8));
    OK(cuMemAlloc_v2(&captured, WORDS * 8));
    OK(cuMemAllocHost_v2((void **)&own.host, WORDS * 8));
    if (strcmp(argv[2], "own") != 0) {
        int apart = strcmp(argv[2], "apart") == 0;
        OK(cuStreamCreate(&stream, apart ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    }
    LAUNCH(fill, NULL, &large, &large_words, &seed);
    make_graph(&graph, at, own.host, &own.calls);
    OK(cuGraphInstantiateWithFlags(&own.exec, graph, 0));
    OK(cuMemsetD8_v2(captured, 0, WORDS * 8));
    OK(cuCtxSynchronize());
    pthread_create(&threads[0], NULL, replay, &own);
    pthread_create(&threads[1], NULL, work, NULL);

    double ends = now_s() + atof(argv[4]);
    OK(cuStreamBeginCapture_v2(stream, mode));
    for (uint64_t k = 0; now_s() < ends; k++) {
        LAUNCH(step, stream, &captured, &words, &k);
        sum = sum * 6364136223846793005ull + k;
        usleep(5000);
    }
    OK(cuStreamEndCapture(stream, &graph));
    over = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(replays > 0 && launches > 0);

    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&found, captured, 8));
    CHECK(found == sum);
    uint64_t *whole = malloc(large_words * 8);
    OK(cuMemcpyDtoH_v2(whole, large, large_words * 8));
    for (uint64_t i = 0; i < large_words; i++) { /* each 512th was counted up, in each half */
        uint64_t x = 1 + i + 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        x ^= x >> 31;
        uint64_t times = (uint64_t)(launches + (i < large_words / 2)) / 2;
        zero |= whole[i] ^ (i % 512 ? x : x + times);
    }
    CHECK(zero == 0);
    puts("ok");
    return 0;
}
