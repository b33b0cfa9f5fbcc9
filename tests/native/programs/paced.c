/* Submits kernels of LENGTH microseconds as fast as it may, until stdin closes:
 *
 *   paced MODE KERNELS LENGTH
 *
 * For each line on stdin it prints "SUBMITTED BEGUN": how many kernels were submitted, and how many
 * of them the GPU has begun. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "simgpu_check.h"

#define STREAMS 4
#define GRAPH_KERNELS 10
#define LATE_AFTER 8

static CUcontext context;
static CUfunction tick;
static uint64_t length_us;
static uint64_t begun;
static _Atomic uint64_t submitted;
static atomic_int stop;

static CUstream new_stream(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void launch(CUstream stream)
{
    uint64_t *at = &begun;
    LAUNCH(tick, stream, &length_us, &at);
    atomic_fetch_add(&submitted, 1);
}

static void *one(void *unused)
{
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    while (!atomic_load(&stop)) {
        launch(stream);
    }
    return unused;
}

/* Has its GPU run dry after each few kernels, while it asks nothing of the driver. */
static void *late(void *unused)
{
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    while (!atomic_load(&stop)) {
        for (int i = 0; i < LATE_AFTER; i++) {
            launch(stream);
        }
        while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < atomic_load(&submitted)) {
            usleep((useconds_t)length_us);
        }
        usleep((useconds_t)(2 * length_us));
    }
    return unused;
}

static void *several(void *unused)
{
    CUstream streams[STREAMS];
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream();
    }
    for (unsigned n = 0; !atomic_load(&stop); n++) {
        launch(streams[n % STREAMS]);
    }
    return unused;
}

static void *legacy(void *unused)
{
    OK(cuCtxSetCurrent(context));
    while (!atomic_load(&stop)) {
        launch(NULL);
    }
    return unused;
}

static void *own(void *unused)
{
    uint64_t *at = &begun;
    void *params[] = {&length_us, &at};
    OK(cuCtxSetCurrent(context));
    while (!atomic_load(&stop)) {
        OK(cuLaunchKernel_ptsz(tick, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        atomic_fetch_add(&submitted, 1);
    }
    return unused;
}

/* A graph of several kernels, captured while nobody else submits. */
static CUgraphExec capture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    uint64_t *at = &begun;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < GRAPH_KERNELS; i++) {
        LAUNCH(tick, stream, &length_us, &at);
    }
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == GRAPH_KERNELS); /* and no mark of anybody else's */
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static void *graphs(void *unused)
{
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    CUgraphExec exec = capture(stream);
    while (!atomic_load(&stop)) {
        OK(cuGraphLaunch(exec, stream));
        atomic_fetch_add(&submitted, GRAPH_KERNELS);
    }
    return unused;
}

/* One thread captures again and again, between launches of its own, while another submits. */
static void *captures(void *unused)
{
    static atomic_int threads;
    if (atomic_fetch_add(&threads, 1)) {
        return one(unused);
    }
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (unsigned n = 0; !atomic_load(&stop); n++) {
        for (unsigned i = 0; i < n % 7; i++) {
            launch(stream);
        }
        CUgraphExec exec = capture(stream);
        OK(cuGraphLaunch(exec, stream));
        atomic_fetch_add(&submitted, GRAPH_KERNELS);
        OK(cuGraphExecDestroy(exec));
    }
    return unused;
}

/* Streams and contexts come and go, whole queues at a time. */
static void *passing(void *unused)
{
    uint64_t *at = &begun;
    void *params[] = {&length_us, &at};
    CUcontext mine;
    CUmodule module;
    CUfunction function;
    OK(cuCtxSetCurrent(context));
    for (unsigned n = 0; !atomic_load(&stop); n++) {
        CUstream stream = new_stream();
        for (int i = 0; i < 50; i++) {
            launch(stream);
        }
        OK(cuStreamDestroy_v2(stream));
        if (n % 4 == 0) {
            OK(cuCtxCreate_v2(&mine, 0, 0));
            OK(cuModuleLoad(&module, getenv("KERNELS")));
            OK(cuModuleGetFunction(&function, module, "tick"));
            for (int i = 0; i < 20; i++) {
                OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
                atomic_fetch_add(&submitted, 1);
            }
            OK(cuCtxSynchronize());
            OK(cuCtxDestroy_v2(mine));
            OK(cuCtxSetCurrent(context));
        }
    }
    return unused;
}

/* Work that waits for what its own thread does only after it has submitted more. */
static void *stalled(void *unused)
{
    CUdeviceptr word;
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    OK(cuMemAlloc_v2(&word, 4));
    for (unsigned n = 1; !atomic_load(&stop); n++) {
        OK(cuStreamWaitValue32(stream, word, n, CU_STREAM_WAIT_VALUE_GEQ));
        for (int i = 0; i < 20; i++) {
            launch(stream);
        }
        *(volatile uint32_t *)word = n; /* in simgpu an address is an address */
        OK(cuStreamSynchronize(stream));
    }
    return unused;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void *(*body)(void *);
        int threads;
    } modes[] = {{"one", one, 1},           {"several", several, 1}, {"threads", one, STREAMS},
                 {"legacy", legacy, 1},     {"own", own, 2},         {"graphs", graphs, 1},
                 {"captures", captures, 2}, {"passing", passing, 1}, {"stalled", stalled, 1},
                 {"late", late, 1}};
    pthread_t threads[STREAMS];
    char line[16];
    int mode = -1;
    for (int i = 0; argc == 4 && i < (int)(sizeof(modes) / sizeof(modes[0])); i++) {
        mode = strcmp(argv[1], modes[i].name) ? mode : i;
    }
    CHECK(mode >= 0);
    setenv("KERNELS", argv[2], 1);
    length_us = strtoull(argv[3], NULL, 10);
    context = begin();
    tick = kernel("tick");
    for (int i = 0; i < modes[mode].threads; i++) {
        pthread_create(&threads[i], NULL, modes[mode].body, NULL);
    }
    while (fgets(line, sizeof(line), stdin)) {
        /* in this order: what is begun meanwhile was submitted before */
        uint64_t started = __atomic_load_n(&begun, __ATOMIC_SEQ_CST);
        printf("%llu %llu\n", (unsigned long long)atomic_load(&submitted),
               (unsigned long long)started);
        fflush(stdout);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < modes[mode].threads; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
