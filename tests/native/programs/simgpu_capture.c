/* What a capture refuses, from which thread, in which mode, with which error, and what becomes of it. */
#include <pthread.h>
#include <stdint.h>

#include "simgpu_check.h"

static CUcontext context;
static CUstream a, b, blocking;
static CUevent event, outside;
static CUdeviceptr memory;
static CUgraph graph;

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static CUstreamCaptureStatus status(CUstream stream)
{
    CUstreamCaptureStatus is;
    OK(cuStreamIsCapturing(stream, &is));
    return is;
}

static void in_mode(CUstreamCaptureMode mode) { OK(cuThreadExchangeStreamCaptureMode(&mode)); }

static CUresult end(CUstream stream)
{
    CUgraph ended = (CUgraph)8;
    CUresult result = cuStreamEndCapture(stream, &ended);
    CHECK((result == CUDA_SUCCESS) == (ended != NULL));
    if (ended) {
        OK(cuGraphDestroy(ended));
    }
    return result;
}

/* ---- what is unsafe: the modes decide ---- */

static CUresult allocate(void)
{
    CUdeviceptr at;
    CUresult result = cuMemAlloc_v2(&at, 4096);
    return result;
}

static CUresult release(void)
{
    static CUdeviceptr at;
    CUstreamCaptureMode mode = RELAXED;
    if (!at) {
        cuThreadExchangeStreamCaptureMode(&mode);
        OK(cuMemAlloc_v2(&at, 4096));
        cuThreadExchangeStreamCaptureMode(&mode);
    }
    CUresult result = cuMemFree_v2(at);
    at = result ? at : 0;
    return result;
}

static CUresult pin(void)
{
    void *at;
    return cuMemAllocHost_v2(&at, 4096);
}

static CUresult load(void)
{
    CUmodule module;
    return cuModuleLoad(&module, getenv("KERNELS"));
}

static CUresult copy(void)
{
    uint64_t word;
    return cuMemcpyDtoH_v2(&word, memory, 8);
}

static CUresult query(void) { return cuEventQuery(outside); }
static CUresult await(void) { return cuEventSynchronize(outside); }

struct attempt {
    CUresult (*call)(void);
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *try_elsewhere(void *argument)
{
    struct attempt *attempt = argument;
    OK(cuCtxSetCurrent(context));
    in_mode(attempt->mode);
    attempt->result = attempt->call();
    return NULL;
}

static CUresult elsewhere(CUresult (*call)(void), CUstreamCaptureMode mode)
{
    struct attempt attempt = {call, mode, CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    pthread_create(&thread, NULL, try_elsewhere, &attempt);
    pthread_join(thread, NULL);
    return attempt.result;
}

static void unsafe_calls(void)
{
    CUresult (*calls[])(void) = {allocate, release, pin, load, copy, query, await};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (CUstreamCaptureMode captured = GLOBAL; captured <= RELAXED; captured++) {
            for (CUstreamCaptureMode own = GLOBAL; own <= RELAXED; own++) {
                int refused = captured != RELAXED && own != RELAXED;
                OK(cuStreamBeginCapture_v2(a, captured));
                in_mode(own);
                EXPECT(refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS, calls[i]());
                in_mode(GLOBAL);
                CHECK(status(a) == (refused ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE));
                EXPECT(refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS, end(a));

                refused = captured == GLOBAL && own == GLOBAL;
                OK(cuStreamBeginCapture_v2(a, captured));
                EXPECT(refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS,
                       elsewhere(calls[i], own));
                EXPECT(refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS, end(a));
            }
        }
    }
}

/* ---- what conflicts: refused in every mode, from every thread ---- */

static CUresult wait_for_context(void) { return cuCtxSynchronize(); }
static CUresult wait_for_stream(void) { return cuStreamSynchronize(a); }
static CUresult ask_stream(void) { return cuStreamQuery(a); }
static CUresult add_callback(void)
{
    return cuStreamAddCallback(a, (CUstreamCallback)(void *)abort, NULL, 0);
}

static void conflicting_calls(void)
{
    CUresult (*calls[])(void) = {wait_for_context, wait_for_stream, ask_stream, add_callback};
    in_mode(RELAXED);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (CUstreamCaptureMode captured = GLOBAL; captured <= RELAXED; captured++) {
            OK(cuStreamBeginCapture_v2(a, captured));
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   i % 2 ? calls[i]() : elsewhere(calls[i], RELAXED));
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(memory, 0, 8, a));
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(a));
        }
    }
    /* Neither has to do with another stream. */
    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    OK(cuStreamSynchronize(b));
    OK(cuStreamQuery(b));
    OK(cuMemsetD8Async(memory, 0, 8, b));
    OK(end(a));
    in_mode(GLOBAL);
}

static CUresult ask_captured(void) { return cuEventQuery(event); }
static CUresult await_captured(void) { return cuEventSynchronize(event); }

static void captured_events(void)
{
    float ms;
    CUresult (*calls[])(void) = {ask_captured, await_captured};
    for (int i = 0; i < 2; i++) {
        OK(cuStreamBeginCapture_v2(a, RELAXED));
        OK(cuEventRecord(event, a));
        EXPECT(CUDA_ERROR_CAPTURED_EVENT, calls[i]());
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(event, a));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(a));
        EXPECT(CUDA_ERROR_CAPTURED_EVENT, calls[i]());
    }
    OK(cuEventRecord(event, b));
    OK(cuEventSynchronize(event));
    CUevent timed;
    OK(cuEventCreate(&timed, 0));
    OK(cuStreamBeginCapture_v2(a, RELAXED));
    OK(cuEventRecord(timed, a));
    EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventElapsedTime(&ms, timed, timed));
    OK(end(a));
    OK(cuEventDestroy_v2(timed));
}

static void legacy_stream(void)
{
    CUstreamCaptureStatus is;
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, RELAXED));
    OK(cuStreamBeginCapture_v2(blocking, RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &is));
    CHECK(status(blocking) == CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
    OK(end(blocking));
    for (int i = 0; i < 3; i++) {
        OK(cuStreamBeginCapture_v2(blocking, RELAXED));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, i == 0   ? cuMemsetD8_v2(memory, 0, 8)
                                                   : i == 1 ? cuStreamSynchronize(NULL)
                                                            : cuEventRecord(event, NULL));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(blocking));
    }
    /* A stream that does not wait for the legacy one leaves it alone. */
    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    OK(cuMemsetD8_v2(memory, 0, 8));
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamIsCapturing(NULL, &is));
    CHECK(is == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(end(a));
    /* The thread's own default stream captures like any other. */
    OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, RELAXED));
    OK(cuMemsetD8Async(memory, 7, 8, CU_STREAM_PER_THREAD));
    OK(end(CU_STREAM_PER_THREAD));
}

/* ---- forks, joins, and ends ---- */

static void fork_to_b(void)
{
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    CHECK(status(b) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static void *end_elsewhere(void *result)
{
    OK(cuCtxSetCurrent(context));
    *(CUresult *)result = end(a);
    return NULL;
}

static void ends(void)
{
    CUevent other;
    CUstream gone;
    CUresult result = CUDA_SUCCESS;
    pthread_t thread;
    OK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, end(a));
    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(a, GLOBAL));
    pthread_create(&thread, NULL, end_elsewhere, &result);
    pthread_join(thread, NULL);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, result);
    OK(end(a));
    OK(cuStreamBeginCapture_v2(a, RELAXED));
    pthread_create(&thread, NULL, end_elsewhere, &result);
    pthread_join(thread, NULL);
    OK(result);

    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    fork_to_b();
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, end(b));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(a));
    CHECK(status(b) == CU_STREAM_CAPTURE_STATUS_NONE);

    OK(cuStreamBeginCapture_v2(a, GLOBAL)); /* a fork that captured nothing needs no joining */
    fork_to_b();
    OK(end(a));
    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    fork_to_b();
    OK(cuMemsetD8Async(memory, 1, 8, b));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, end(a));
    CHECK(status(a) == CU_STREAM_CAPTURE_STATUS_NONE && status(b) == CU_STREAM_CAPTURE_STATUS_NONE);

    /* A stream that is destroyed was joined, or was not. */
    for (int joined = 0; joined < 2; joined++) {
        OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
        OK(cuStreamBeginCapture_v2(a, GLOBAL));
        OK(cuEventRecord(event, a));
        OK(cuStreamWaitEvent(gone, event, 0));
        OK(cuMemsetD8Async(memory, 1, 8, gone));
        if (joined) {
            OK(cuEventRecord(other, gone));
            OK(cuStreamWaitEvent(a, other, 0));
        }
        OK(cuStreamDestroy_v2(gone));
        EXPECT(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED, end(a));
    }
    OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(gone, GLOBAL));
    OK(cuEventRecord(event, gone));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuStreamDestroy_v2(gone)); /* the origin takes all with it */
    CHECK(status(b) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(allocate());

    OK(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, outside, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(a));
    OK(cuStreamBeginCapture_v2(a, RELAXED));
    OK(cuStreamBeginCapture_v2(b, RELAXED));
    OK(cuEventRecord(event, a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b, event, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(b));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(b, event, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(a));
    OK(cuEventDestroy_v2(other));
}

/* ---- a graph of the program's own, and other places to go on from ---- */

static void to_graph(void)
{
    CUgraphNode first, nodes[8];
    const CUgraphNode *last;
    CUgraph same = NULL;
    CUstreamCaptureStatus is;
    cuuint64_t id = 0, other_id = 0;
    size_t count = 8;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(a, graph, &first, NULL, 1, GLOBAL));
    OK(cuMemsetD8Async(memory, 1, 8, a));
    OK(cuStreamGetCaptureInfo_v2(a, &is, &id, &same, &last, &count));
    CHECK(is == CU_STREAM_CAPTURE_STATUS_ACTIVE && id && same == graph && count == 1);
    nodes[0] = first;
    OK(cuStreamUpdateCaptureDependencies(a, nodes, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo_v3(a, &is, &other_id, &same, &last, NULL, &count));
    CHECK(other_id == id && count == 2);
    OK(cuStreamUpdateCaptureDependencies(a, nodes, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuMemsetD8Async(memory, 2, 8, a));
    same = NULL;
    OK(cuStreamEndCapture(a, &same));
    CHECK(same == graph);
    OK(cuGraphNodeGetDependentNodes(first, NULL, &count));
    CHECK(count == 2);
    OK(cuStreamBeginCaptureToGraph(a, graph, NULL, NULL, 0, GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &same));
    OK(cuGraphDestroy(graph)); /* it is still the program's */
    EXPECT(CUDA_ERROR_ILLEGAL_STATE,
           cuStreamUpdateCaptureDependencies(a, nodes, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

int main(void)
{
    context = begin();
    OK(cuMemAlloc_v2(&memory, 4096));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(outside, b));
    OK(cuCtxSynchronize());
    unsafe_calls();
    conflicting_calls();
    captured_events();
    legacy_stream();
    ends();
    to_graph();
    puts("ok");
    return 0;
}
