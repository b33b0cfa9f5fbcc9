/* Stream 0 of both kinds, as cuGetProcAddress hands its calls out:  default_streams FLAVOUR KERNELS
 *
 * FLAVOUR is legacy, thread, or none (no flag: the legacy one). First what must be ordered and what must
 * not be; nothing here depends on time: a kernel that waits for a word ends when another stream writes
 * it, or never. Then each call by itself: at "away" whoever drives the test takes GPU and memory away,
 * sends a line, and gives both back when somebody stands at the gate. With FLAVOUR+ (legacy+) without
 * those pauses. Exit code 0: all was right. */
#include <pthread.h>
#include <stdint.h>

#include "simgpu_check.h"

#define LARGE ((size_t)12 << 20)

static __typeof__(&cuLaunchKernel) launch;
static __typeof__(&cuLaunchKernelEx) launch_ex;
static __typeof__(&cuLaunchCooperativeKernel) launch_all;
static __typeof__(&cuLaunchHostFunc) launch_host;
static __typeof__(&cuMemcpyHtoD_v2) to_device;
static __typeof__(&cuMemcpyDtoH_v2) to_host;
static __typeof__(&cuMemcpyHtoDAsync_v2) to_device_async;
static __typeof__(&cuMemsetD32_v2) set_now;
static __typeof__(&cuMemsetD32Async) set_async;
static __typeof__(&cuStreamWriteValue32_v2) write_value;
static __typeof__(&cuStreamWaitValue32_v2) wait_value;
static __typeof__(&cuGraphLaunch) launch_graph;
static __typeof__(&cuStreamSynchronize) synchronise;
static __typeof__(&cuStreamQuery) query;
static __typeof__(&cuEventRecord) record;
static __typeof__(&cuStreamWaitEvent) wait_event;

static CUcontext context;
static CUdeviceptr word;
static int of_thread, with_pauses, calls;

#define LOOK(function, name, version)                                             \
    OK(cuGetProcAddress_v2(name, (void **)&(function), version, flags, &status)); \
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS)

static void look_up(cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    LOOK(launch, "cuLaunchKernel", 7000);
    LOOK(launch_ex, "cuLaunchKernelEx", 11060);
    LOOK(launch_all, "cuLaunchCooperativeKernel", 9000);
    LOOK(launch_host, "cuLaunchHostFunc", 10000);
    LOOK(to_device, "cuMemcpyHtoD", 7000);
    LOOK(to_host, "cuMemcpyDtoH", 7000);
    LOOK(to_device_async, "cuMemcpyHtoDAsync", 7000);
    LOOK(set_now, "cuMemsetD32", 7000);
    LOOK(set_async, "cuMemsetD32Async", 7000);
    LOOK(write_value, "cuStreamWriteValue32", 11070);
    LOOK(wait_value, "cuStreamWaitValue32", 11070);
    LOOK(launch_graph, "cuGraphLaunch", 10000);
    LOOK(synchronise, "cuStreamSynchronize", 7000);
    LOOK(query, "cuStreamQuery", 7000);
    LOOK(record, "cuEventRecord", 7000);
    LOOK(wait_event, "cuStreamWaitEvent", 7000);
}

static void start(const char *name, CUstream stream, void **params)
{
    OK(launch(kernel(name), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void await_word(CUstream stream, uint32_t value)
{
    uint64_t no_limit = 0;
    CUdeviceptr nowhere = 0;
    start("await_u32", stream, (void *[]){&word, &value, &no_limit, &nowhere});
}

static void signal_word(CUstream stream, uint32_t value)
{
    start("signal_u32", stream, (void *[]){&word, &value});
}

static uint32_t seen(void)
{
    uint32_t value;
    OK(to_host(&value, word, sizeof value)); /* in the stream 0 of this flavour */
    return value;
}

static void *signal_from_thread(void *unused)
{
    OK(cuCtxSetCurrent(context));
    signal_word(NULL, 7);
    OK(synchronise(NULL));
    return unused;
}

static void *await_in_thread(void *unused)
{
    OK(cuCtxSetCurrent(context));
    OK(wait_value(NULL, word, 8, CU_STREAM_WAIT_VALUE_GEQ));
    OK(synchronise(NULL));
    return unused;
}

static void orders(void)
{
    CUstream apart, blocking;
    pthread_t thread;
    uint64_t us = 20000;
    uint32_t one = 1;
    OK(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));

    /* A stream that does not block is not waited for, and waits for nothing. */
    await_word(NULL, 1);
    EXPECT(CUDA_ERROR_NOT_READY, query(NULL));
    signal_word(apart, 1);
    OK(synchronise(NULL));

    /* The legacy stream waits for those that block, and they for it. The thread's own is one of these. */
    CUstream legacy = of_thread ? CU_STREAM_LEGACY : NULL;
    CUstream others[] = {blocking, CU_STREAM_PER_THREAD};
    for (int i = 0; i < 2; i++) {
        OK(set_now(word, 10, 1));
        OK(cuCtxSynchronize());
        start("spin_us", others[i], (void *[]){&us});
        start("add_u32", others[i], (void *[]){&word, &one});
        signal_word(legacy, 20);
        start("add_u32", others[i], (void *[]){&word, &one});
        OK(synchronise(others[i]));
        CHECK(seen() == 21);
    }

    /* Two threads' stream 0: one if it is the legacy one, else two. */
    if (of_thread) {
        await_word(NULL, 7 + 20);
        OK(pthread_create(&thread, NULL, await_in_thread, NULL) ? CUDA_ERROR_UNKNOWN
                                                                : CUDA_SUCCESS);
        EXPECT(CUDA_ERROR_NOT_READY, query(NULL));
        signal_word(apart, 7 + 20);
        OK(synchronise(NULL));
        pthread_join(thread, NULL); /* that waited for at least 8 */
    } else {
        start("spin_us", NULL, (void *[]){&us});
        signal_word(NULL, 3);
        OK(pthread_create(&thread, NULL, signal_from_thread, NULL) ? CUDA_ERROR_UNKNOWN
                                                                   : CUDA_SUCCESS);
        pthread_join(thread, NULL);
        CHECK(seen() == 7); /* which was submitted later */
    }
    OK(cuStreamDestroy_v2(apart));
    OK(cuStreamDestroy_v2(blocking));
}

/* ---- each call at the gate ---- */

static void count(void *data) { ++*(int *)data; }

static void away(void)
{
    char line[16];
    if (!with_pauses) {
        return;
    }
    puts("away");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
}

static void gates(void)
{
    uint32_t value = 30, next = 31;
    void *params[] = {&word, &next};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    CUDA_KERNEL_NODE_PARAMS node_params = {.func = kernel("signal_u32"),
                                           .gridDimX = 1,
                                           .gridDimY = 1,
                                           .gridDimZ = 1,
                                           .blockDimX = 1,
                                           .blockDimY = 1,
                                           .blockDimZ = 1,
                                           .kernelParams = params};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUevent event;
    CUfunction signal = kernel("signal_u32");
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &node_params)); /* signals 31 */
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    away();
    OK(to_device(word, &value, sizeof value));
    CHECK(seen() == 30);
    away();
    OK(launch_graph(exec, NULL));
    CHECK(seen() == 31);
    away();
    next = 32;
    OK(launch(signal, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CHECK(seen() == 32);
    away();
    next = 33;
    OK(launch_ex(&config, signal, params, NULL));
    CHECK(seen() == 33);
    away();
    next = 34;
    OK(launch_all(signal, 1, 1, 1, 1, 1, 1, 0, NULL, params));
    CHECK(seen() == 34);
    away();
    value = 35;
    OK(to_device_async(word, &value, sizeof value, NULL));
    CHECK(seen() == 35);
    away();
    OK(set_async(word, 36, 1, NULL));
    CHECK(seen() == 36);
    away();
    OK(set_now(word, 37, 1));
    CHECK(seen() == 37);
    away();
    OK(write_value(NULL, word, 38, 0));
    OK(wait_value(NULL, word, 38, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(seen() == 38);
    away();
    OK(launch_host(NULL, count, &calls));
    OK(record(event, NULL));
    OK(wait_event(NULL, event, 0));
    OK(synchronise(NULL));
    CHECK(calls == 1 && seen() == 38);
}

int main(int argc, char **argv)
{
    CUdeviceptr large;
    CHECK(argc == 3 && setenv("KERNELS", argv[2], 1) == 0);
    of_thread = !strncmp(argv[1], "thread", 6);
    with_pauses = !strchr(argv[1], '+');
    context = begin();
    look_up(of_thread                        ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
            : !strncmp(argv[1], "legacy", 6) ? CU_GET_PROC_ADDRESS_LEGACY_STREAM
                                             : CU_GET_PROC_ADDRESS_DEFAULT);
    OK(cuMemAlloc_v2(&word, 4096));
    OK(cuMemAlloc_v2(&large, LARGE));
    OK(cuMemsetD32_v2(large, 1, LARGE / 4));
    OK(cuMemsetD32_v2(word, 0, 1024));
    OK(cuCtxSynchronize());
    orders();
    gates();
    puts("done");
    return 0;
}
