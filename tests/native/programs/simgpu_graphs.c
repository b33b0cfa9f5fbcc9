/* Capture and replay: two streams joined by events, a host function, and what a capture forbids. */
#include <stdint.h>

#include "simgpu_check.h"

static void count(void *data) { ++*(int *)data; }

int main(void)
{
    begin();
    uint64_t n = 1000, seed = 5, k = 3, one = 1, errors = 9;
    CUdeviceptr p, ks, errors_at, q;
    CUstream a, b;
    CUevent fork_event, join_event;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    size_t nodes = 0, edges = 0;
    int calls = 0;
    OK(cuMemAlloc_v2(&p, n * 8));
    OK(cuMemAlloc_v2(&ks, 8));
    OK(cuMemAlloc_v2(&errors_at, 8));
    OK(cuMemcpyHtoD_v2(ks, &k, 8));
    OK(cuMemsetD8_v2(errors_at, 0, 8));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    OK(cuCtxSynchronize());
    kernel("nop"); /* so that the module is there */

    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    LAUNCH(kernel("fill_u64"), a, &p, &n, &seed);
    OK(cuEventRecord(fork_event, a));
    OK(cuStreamWaitEvent(b, fork_event, 0));
    OK(cuStreamIsCapturing(b, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    LAUNCH(kernel("step_u64"), b, &p, &n, &k);
    OK(cuEventRecord(join_event, b));
    OK(cuStreamWaitEvent(a, join_event, 0));
    OK(cuLaunchHostFunc(a, count, &calls));
    LAUNCH(kernel("check_u64"), a, &p, &n, &seed, &ks, &one, &errors_at);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuStreamIsCapturing(b, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    OK(cuGraphGetEdges(graph, NULL, NULL, &edges));
    CHECK(nodes == 4 && edges >= 3);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    CHECK(calls == 0); /* nothing ran yet */
    for (int i = 0; i < 10; i++) {
        OK(cuGraphLaunch(exec, a));
    }
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(&errors, errors_at, 8));
    CHECK(errors == 0 && calls == 10);
    OK(cuGraphExecDestroy(exec));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, a));

    /* Allocating breaks a capture in global mode, and does not where the thread says that it knows. */
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&q, 8));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc_v2(&q, 8));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphDestroy(graph));

    /* A branch that is not joined. */
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    LAUNCH(kernel("nop"), a, NULL);
    OK(cuEventRecord(fork_event, a));
    OK(cuStreamWaitEvent(b, fork_event, 0));
    LAUNCH(kernel("nop"), b, NULL);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    puts("ok");
    return 0;
}
