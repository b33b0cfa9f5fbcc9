/* Work on the GPU that waits for what another thread of the program submits: dependent WORD BYTES SECONDS
 *
 * callback  a function in a stream waits until a thread has launched a kernel after it
 * older     the same with a callback of the older kind
 * node      the same out of a graph
 * lock      such a function takes a lock whose holder submits work
 * calls     such a function calls the driver, which refuses that
 * value     a stream waits for a word that a thread writes with a copy through another stream
 * copy      a copy that blocks its thread stands behind such a wait
 * never     a stream waits for a word that nobody writes
 * plain     nothing waits for anything
 * idle      takes its memory and uses it once
 *
 * Each allocates so many bytes, says "ready", and goes on for so long. Exit code 0: all was right. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "simgpu_check.h"

static _Atomic uint32_t asked, answered;
static _Atomic int over;
static CUdeviceptr word;
static CUcontext context;
static CUfunction spin;
static const char *what;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static CUgraphExec graph;

static int is(const char *word_wanted) { return !strcmp(what, word_wanted); }

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Does what the work that is under way waits for, a little later. */
static void *answer(void *unused)
{
    CUstream stream;
    uint64_t us = 10;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!over) {
        if (asked == answered) {
            usleep(100);
            continue;
        }
        uint32_t now = asked;
        usleep(2000);
        if (is("lock")) {
            pthread_mutex_lock(&shared_lock);
            LAUNCH(spin, stream, &us);
            OK(cuStreamSynchronize(stream));
            pthread_mutex_unlock(&shared_lock);
        } else if (is("callback") || is("older") || is("node") || is("calls")) {
            LAUNCH(spin, stream, &us);
        } else {
            OK(cuMemcpyHtoDAsync_v2(word, &now, sizeof(now), stream));
        }
        OK(cuStreamSynchronize(stream));
        answered = now;
    }
    return unused;
}

static void await_answer(void *data)
{
    while (answered != (uint32_t)(uintptr_t)data && !over) {
        usleep(100);
    }
}

static void await_in_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    OK(status);
    await_answer(data);
}

static void await_asked(void *data)
{
    (void)data;
    await_answer((void *)(uintptr_t)asked);
}

/* For a while the other thread has the lock most of the time. */
static void take_lock(void *data)
{
    (void)data;
    for (int i = 0; i < 3; i++) {
        usleep(1000);
        pthread_mutex_lock(&shared_lock);
        pthread_mutex_unlock(&shared_lock);
    }
}

static void call_driver(void *data)
{
    CUdeviceptr more;
    size_t free_bytes, total_bytes;
    uint64_t us = 10;
    uint32_t copied;
    usleep(1000);
    EXPECT(CUDA_ERROR_NOT_PERMITTED, cuMemAlloc_v2(&more, 4096));
    EXPECT(CUDA_ERROR_NOT_PERMITTED, cuMemFree_v2(word));
    EXPECT(CUDA_ERROR_NOT_PERMITTED, cuMemcpyDtoH_v2(&copied, word, 4));
    EXPECT(CUDA_ERROR_NOT_PERMITTED, cuMemGetInfo_v2(&free_bytes, &total_bytes));
    EXPECT(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_NOT_PERMITTED,
           cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&us}, NULL));
    await_answer(data);
}

/* A graph that has nothing but such a function. */
static void make_graph(void)
{
    CUDA_HOST_NODE_PARAMS call = {await_asked, NULL};
    CUgraphNode node;
    CUgraph made;
    OK(cuGraphCreate(&made, 0));
    OK(cuGraphAddHostNode(&node, made, NULL, 0, &call));
    OK(cuGraphInstantiateWithFlags(&graph, made, 0));
    OK(cuGraphDestroy(made));
}

static void ask(CUstream stream, uint32_t number)
{
    uint32_t copied = 0;
    void *data = (void *)(uintptr_t)number;
    asked = number;
    if (is("value") || is("copy")) {
        OK(cuStreamWaitValue32_v2(stream, word, number, CU_STREAM_WAIT_VALUE_GEQ));
    } else if (is("callback")) {
        OK(cuLaunchHostFunc(stream, await_answer, data));
    } else if (is("older")) {
        OK(cuStreamAddCallback(stream, await_in_callback, data, 0));
    } else if (is("node")) {
        OK(cuGraphLaunch(graph, stream));
    } else if (is("lock")) {
        OK(cuLaunchHostFunc(stream, take_lock, NULL));
    } else {
        OK(cuLaunchHostFunc(stream, call_driver, data));
    }
    if (!is("copy")) {
        OK(cuStreamSynchronize(stream));
        return;
    }
    OK(cuMemcpyDtoHAsync_v2(&copied, word, sizeof(copied), stream));
    OK(cuMemcpyDtoH_v2(&copied, word, sizeof(copied))); /* inside the gate until all is done */
    OK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    CUdeviceptr memory;
    CUstream stream;
    pthread_t thread;
    uint64_t us = 10;
    CHECK(argc == 4);
    what = argv[1];
    context = begin();
    spin = kernel("spin_us");
    OK(cuMemAlloc_v2(&memory, strtoull(argv[2], NULL, 10)));
    OK(cuMemAlloc_v2(&word, 4096));
    OK(cuMemsetD32_v2(word, 0, 1024));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuCtxSynchronize());
    make_graph();
    puts("ready");
    fflush(stdout);
    double ends = now_s() + atof(argv[3]);
    if (is("never")) {
        OK(cuStreamWaitValue32_v2(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuStreamSynchronize(stream));
    }
    if (is("idle")) {
        usleep((useconds_t)(atof(argv[3]) * 1e6));
    } else if (is("plain")) {
        while (now_s() < ends) {
            LAUNCH(spin, stream, &us);
            OK(cuStreamSynchronize(stream));
        }
    } else {
        OK(pthread_create(&thread, NULL, answer, NULL) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        for (uint32_t number = 1; now_s() < ends; number++) {
            ask(stream, number);
        }
        over = 1;
        pthread_join(thread, NULL);
        printf("%u\n", asked);
    }
    return 0;
}
