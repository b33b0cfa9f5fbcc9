/* Captures that stay open while the GPU is taken away and given back:
 *     shim_capture MODE STREAM KERNELS
 *
 * MODE is global, local or relaxed; STREAM is of its own kind: apart (non-blocking), blocking, or own (the
 * thread's default stream). At each "ready" work is under way in streams of every kind, some of it
 * submitted before they joined the capture, and whoever drives the test takes the GPU and all memory away
 * and gives it back. In the end the graph must do what was captured. Exit code 0: it does. */
#include <pthread.h>
#include <stdint.h>

#include "simgpu_check.h"

#define WORDS ((size_t)256 * 1024)
#define PAUSES 3
#define LONG_US 60000

enum place { ORIGIN, BRANCH, OTHER, LEGACY, OWN, CAPTURED, PLACES };

static CUcontext context;
static CUdeviceptr at[PLACES];
static uint64_t expected[PLACES]; /* of word 0 */
static CUfunction spin, step;
static pthread_barrier_t turn;
static int go_on = 1;

static void submit(CUstream stream, enum place place, uint64_t k)
{
    uint64_t words = WORDS, us = LONG_US;
    LAUNCH(spin, stream, &us);
    LAUNCH(step, stream, &at[place], &words, &k);
    expected[place] = expected[place] * 6364136223846793005ull + k;
}

/* The default stream of another thread: only this one can ask for it. */
static void *other_thread(void *unused)
{
    OK(cuCtxSetCurrent(context));
    for (uint64_t k = 1;; k++) {
        pthread_barrier_wait(&turn);
        if (!go_on) {
            break;
        }
        submit(CU_STREAM_PER_THREAD, OWN, k);
        pthread_barrier_wait(&turn);
    }
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return unused;
}

static void pause_for_test(void)
{
    char line[16];
    puts("ready");
    fflush(stdout);
    CHECK(fgets(line, sizeof(line), stdin));
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"global", "local", "relaxed"};
    uint64_t words = WORDS, seen;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureStatus status;
    CUstream origin, branch, other, late;
    CUevent fork_event, join_event;
    CUdeviceptr gone;
    CUgraph graph;
    CUgraphExec exec;
    pthread_t thread;
    CHECK(argc == 4 && setenv("KERNELS", argv[3], 1) == 0);
    while (strcmp(argv[1], modes[mode]) != 0) {
        mode++;
    }
    context = begin();
    spin = kernel("spin_us");
    step = kernel("step_u64");
    for (int i = 0; i < PLACES; i++) {
        OK(cuMemAlloc_v2(&at[i], WORDS * 8));
        OK(cuMemsetD8_v2(at[i], 0, WORDS * 8));
    }
    OK(cuMemAlloc_v2(&gone, WORDS * 8));
    origin = CU_STREAM_PER_THREAD;
    int blocking = strcmp(argv[2], "apart") != 0;
    if (strcmp(argv[2], "own") != 0) {
        OK(cuStreamCreate(&origin, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    }
    OK(cuStreamCreate(&branch, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&thread, NULL, other_thread, NULL);
    OK(cuCtxSynchronize());

    submit(NULL, LEGACY, 7);
    submit(origin, ORIGIN, 8);
    submit(branch, BRANCH, 9);
    OK(cuStreamBeginCapture_v2(origin, mode));
    OK(cuEventRecord(fork_event, origin));
    OK(cuStreamWaitEvent(branch, fork_event, 0));
    OK(cuMemsetD32Async(at[CAPTURED], 0, WORDS * 2, origin));
    for (uint64_t k = 1; k <= PAUSES; k++) {
        submit(other, OTHER, k);
        if (!blocking) {
            submit(NULL, LEGACY, k);
        }
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        pause_for_test();
        LAUNCH(step, origin, &at[CAPTURED], &words, &k);
        OK(cuStreamIsCapturing(origin, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(cuStreamIsCapturing(branch, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    }
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) { /* streams and memory may come and go meanwhile */
        OK(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
        LAUNCH(step, late, &gone, &words, &words);
        OK(cuMemFree_v2(gone));
        OK(cuStreamDestroy_v2(late));
    }
    OK(cuEventRecord(join_event, branch));
    OK(cuStreamWaitEvent(origin, join_event, 0));
    OK(cuStreamEndCapture(origin, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < PAUSES; i++) { /* each time from the beginning */
        OK(cuGraphUpload(exec, origin));
        OK(cuGraphLaunch(exec, origin));
        pause_for_test();
    }
    for (uint64_t k = 1; k <= PAUSES; k++) {
        expected[CAPTURED] = expected[CAPTURED] * 6364136223846793005ull + k;
    }
    go_on = 0;
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
    OK(cuCtxSynchronize());
    for (int i = 0; i < PLACES; i++) {
        OK(cuMemcpyDtoH_v2(&seen, at[i], 8));
        CHECK(seen == expected[i]);
    }
    return 0;
}
