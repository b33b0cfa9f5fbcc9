/* Words that streams write and wait for: both versions of the calls, every condition, and batches. */
#include <stdint.h>
#include <unistd.h>

#include "simgpu_check.h"

static CUstream waiter, writer;
static CUdeviceptr at;

/* The waiter is held by `wait` until `write` has been carried out. */
#define HELD_UNTIL(wait, write)                              \
    do {                                                     \
        OK(wait);                                            \
        usleep(2000);                                        \
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter)); \
        OK(write);                                           \
        OK(cuStreamSynchronize(waiter));                     \
    } while (0)

int main(void)
{
    uint32_t *host;
    CUdeviceptr pinned;
    uint64_t wide;
    begin();
    OK(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&at, 4096));
    OK(cuMemHostAlloc((void **)&host, 4096, 0));
    OK(cuMemHostGetDevicePointer_v2(&pinned, host, 0));
    OK(cuMemsetD32_v2(at, 0, 1024));
    OK(cuCtxSynchronize());
    HELD_UNTIL(cuStreamWaitValue32_v2(waiter, at, 5, CU_STREAM_WAIT_VALUE_GEQ),
               cuStreamWriteValue32_v2(writer, at, 6, CU_STREAM_WRITE_VALUE_DEFAULT));
    HELD_UNTIL(cuStreamWaitValue32(waiter, at, 5, CU_STREAM_WAIT_VALUE_EQ),
               cuStreamWriteValue32(writer, at, 5, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    HELD_UNTIL(cuStreamWaitValue32_v2(waiter, at, 8, CU_STREAM_WAIT_VALUE_AND),
               cuStreamWriteValue32_v2(writer, at, 0xfffffff8u, 0));
    HELD_UNTIL(cuStreamWaitValue32_v2(waiter, at, 7, CU_STREAM_WAIT_VALUE_NOR),
               cuStreamWriteValue32_v2(writer, at, 0, 0));
    OK(cuStreamWriteValue32_v2(writer, at, 0xfffffff0u, 0)); /* in a circle: 2 is later */
    OK(cuStreamSynchronize(writer));
    HELD_UNTIL(cuStreamWaitValue32_v2(waiter, at, 2, CU_STREAM_WAIT_VALUE_GEQ),
               cuStreamWriteValue32_v2(writer, at, 2, 0));
    HELD_UNTIL(cuStreamWaitValue64_v2(waiter, at + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_GEQ),
               cuStreamWriteValue64_v2(writer, at + 8, 1ull << 41, 0));
    HELD_UNTIL(cuStreamWaitValue64(waiter, at + 8, 7, CU_STREAM_WAIT_VALUE_EQ),
               cuStreamWriteValue64(writer, at + 8, 7, 0));
    OK(cuMemcpyDtoH_v2(&wide, at + 8, 8));
    CHECK(wide == 7);

    /* Host memory, which the CPU writes. */
    host[0] = 0;
    OK(cuStreamWaitValue32_v2(waiter, pinned, 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter));
    __atomic_store_n(&host[0], 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(waiter));
    OK(cuStreamWriteValue32_v2(writer, pinned + 4, 9, 0));
    OK(cuStreamSynchronize(writer));
    CHECK(host[1] == 9);

    CUstreamBatchMemOpParams items[2] = {
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = at, .value = 77}},
        {.writeValue = {
             .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = pinned, .value = 78}}};
    items[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    HELD_UNTIL(cuStreamBatchMemOp_v2(waiter, 2, items, 0),
               cuStreamWriteValue32_v2(writer, at, 77, 0));
    CHECK(host[0] == 78);
    OK(cuStreamBatchMemOp(waiter, 2, items, 0));

    /* What is refused. */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(waiter, 2, items, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(waiter, 2, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(waiter, 257, items, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(waiter, at + 2, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64_v2(waiter, at + 4, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(waiter, 4096, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(waiter, at, 0, 2));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED,
           cuStreamWaitValue32_v2(waiter, at, 0, CU_STREAM_WAIT_VALUE_FLUSH));
    OK(cuStreamSynchronize(waiter));
    puts("ok");
    return 0;
}
