/* Memory that is freed while a stream is captured is there for the next allocation: of its own kind, of a pool, and of
 * the program's own mapping.
 *
 *   capture_frees   with KERNELS; more than half of the GPU's memory is allocated again and again */
#include <time.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define BYTES (40 * MIB)
#define ROUNDS 6
#define KERNEL_US 20000ull

static CUstream captures, works, others;

/* Freeing waits for work that is submitted, and that is known by what it leaves. */
static void use(CUdeviceptr at, CUdeviceptr seen)
{
    uint64_t us = KERNEL_US;
    LAUNCH(kernel("spin_us"), works, &us);
    OK(cuMemsetD32Async(at, 7, BYTES / 4, works));
    OK(cuMemcpyDtoDAsync_v2(seen, at + BYTES - 4, 4, works));
}

static void plain(CUdeviceptr seen)
{
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr at;
        uint32_t word = 0;
        OK(cuMemsetD32_v2(seen, 0, 1));
        OK(cuMemAlloc_v2(&at, BYTES));
        use(at, seen);
        OK(cuMemFree_v2(at));
        OK(cuMemAlloc_v2(&at, BYTES));
        OK(cuMemcpyDtoHAsync_v2(&word, seen, 4, works));
        OK(cuStreamSynchronize(works));
        CHECK(word == 7);
        OK(cuMemFree_v2(at));
    }
}

/* What was freed in one stream of a pool is there for another, and for what is no pool's. */
static void of_a_pool(CUdeviceptr seen)
{
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, BYTES));
    use(at, seen);
    OK(cuMemFree_v2(at));
    for (int i = 0; i < ROUNDS; i++) {
        CUstream stream = i % 2 ? works : others;
        OK(cuMemAllocAsync(&at, BYTES, stream));
        OK(cuStreamSynchronize(stream));
        use(at, seen);
        OK(cuMemFreeAsync(at, works));
    }
    OK(cuStreamSynchronize(works));
    OK(cuMemAlloc_v2(&at, BYTES));
    OK(cuMemFree_v2(at));
}

static void of_its_own(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, BYTES));
    OK(cuMemFree_v2(at));
    OK(cuMemCreate(&handle, BYTES, &prop, 0));
    OK(cuMemRelease(handle));
}

int main(void)
{
    CUgraph graph;
    CUdeviceptr seen;
    size_t count = 0;
    CUcontext primary = begin();
    OK(cuStreamCreate(&captures, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&others, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&seen, MIB));
    kernel("spin_us");
    OK(cuStreamBeginCapture_v2(captures, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(seen, 1, 1, captures));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(primary)); /* and changes nothing */
    plain(seen);
    of_a_pool(seen);
    of_its_own();
    OK(cuStreamEndCapture(captures, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 1);
    OK(cuGraphDestroy(graph));
    puts("ok");
    return 0;
}
