/* Streams work on their own: what is not waited for is not there yet. */
#include <stdint.h>
#include <time.h>

#include "simgpu_check.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void note_call(void *data) { __atomic_add_fetch((int *)data, 1, __ATOMIC_SEQ_CST); }

static void wait_for_go(void *data)
{
    while (!__atomic_load_n((volatile int *)data, __ATOMIC_SEQ_CST))
        ;
}

int main(void)
{
    begin();
    uint64_t n = 1000, seed = 11, zero = 0, first = 0, *host;
    CUdeviceptr p;
    CUstream a, b, blocking;
    CUevent event, start, end;
    OK(cuMemAlloc_v2(&p, n * 8));
    OK(cuMemAllocHost_v2((void **)&host, n * 8));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuMemsetD8_v2(p, 0, n * 8));
    OK(cuCtxSynchronize());

    /* A stream held up by the host: nothing behind the hold has happened, and every question says so. */
    int go = 0;
    OK(cuLaunchHostFunc(a, wait_for_go, &go));
    LAUNCH(kernel("fill_u64"), a, &p, &n, &seed);
    OK(cuEventRecord(event, a));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuMemcpyDtoHAsync_v2(host, p, 8, b)); /* another stream does not wait: stale */
    OK(cuStreamSynchronize(b));
    CHECK(host[0] == zero);

    /* With the event it waits. */
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuMemcpyDtoHAsync_v2(host, p, 8, b));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    CHECK(host[0] == zero);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    OK(cuStreamSynchronize(b));
    CHECK(host[0] != zero);
    OK(cuEventSynchronize(event));
    OK(cuStreamQuery(a));

    /* The legacy stream waits for blocking streams, and they for it; non-blocking ones stand aside. */
    first = host[0];
    go = 0;
    OK(cuLaunchHostFunc(blocking, wait_for_go, &go));
    OK(cuMemsetD8Async(p, 0, 8, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    OK(cuMemcpyDtoHAsync_v2(host, p, 8, a));
    OK(cuStreamSynchronize(a));
    CHECK(host[0] == first);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    OK(cuStreamSynchronize(NULL));
    OK(cuMemcpyDtoH_v2(&first, p, 8));
    CHECK(first == zero);

    /* The thread's own default stream is a stream of its own kind. */
    LAUNCH(kernel("fill_u64"), CU_STREAM_PER_THREAD, &p, &n, &seed);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuMemcpyDtoH_v2_ptds(&first, p, 8));
    CHECK(first != zero);

    /* Time: a kernel of 30 ms takes 30 ms, alone and as the events see it, and host functions come in order. */
    uint64_t us = 30000;
    int calls = 0;
    float ms = 0;
    double before = now_s();
    OK(cuEventRecord(start, a));
    LAUNCH(kernel("spin_us"), a, &us);
    OK(cuLaunchHostFunc(a, note_call, &calls));
    OK(cuEventRecord(end, a));
    CHECK(now_s() - before < 0.030 ||
          cuStreamQuery(a) == CUDA_SUCCESS); /* launching does not wait */
    OK(cuStreamSynchronize(a));
    CHECK(calls == 1);
    CHECK(now_s() - before >= 0.0299);
    OK(cuEventElapsedTime(&ms, start, end));
    CHECK(ms >= 29.9f);

    /* Events take none of the GPU's time, however late the machine comes to look at them. */
    go = 0;
    us = 200;
    OK(cuLaunchHostFunc(a, wait_for_go, &go));
    OK(cuEventRecord(start, a));
    for (int i = 0; i < 50; i++) {
        LAUNCH(kernel("spin_us"), a, &us);
        OK(cuEventRecord(end, a));
    }
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    OK(cuStreamSynchronize(a));
    OK(cuEventElapsedTime(&ms, start, end));
    CHECK(ms > 9.99f && ms < 10.01f);
    us = 30000;

    /* Two streams share one GPU: together they take twice as long as one. */
    before = now_s();
    LAUNCH(kernel("spin_us"), a, &us);
    LAUNCH(kernel("spin_us"), b, &us);
    OK(cuCtxSynchronize());
    CHECK(now_s() - before >= 0.0599);

    /* What the host gives from pageable memory may change at once. */
    uint64_t value = 42;
    go = 0;
    OK(cuLaunchHostFunc(a, wait_for_go, &go));
    OK(cuMemcpyHtoDAsync_v2(p, &value, 8, a));
    value = 43;
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(&first, p, 8));
    CHECK(first == 42);

    OK(cuStreamDestroy_v2(a));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(a));
    OK(cuMemFreeHost(host));
    OK(cuMemFree_v2(p));
    puts("ok");
    return 0;
}
