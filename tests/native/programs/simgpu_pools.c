/* Memory pools: order of streams, bytes reserved and used, trimming, running out, sharing. */
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)

static uint64_t ask(CUmemoryPool pool, CUmemPool_attribute what)
{
    uint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, what, &value));
    return value;
}

static uint64_t reserved(CUmemoryPool pool)
{
    return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t used(CUmemoryPool pool) { return ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }

static void set_threshold(CUmemoryPool pool, uint64_t bytes)
{
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static CUmemPoolProps props_of(CUmemAllocationHandleType types)
{
    return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = types,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
}

static size_t free_bytes(void)
{
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    return left;
}

/* What was freed in a stream is at once there for the same stream, and for another when it got there. */
static void order(CUmemoryPool pool)
{
    CUstream one, two;
    CUdeviceptr a, b, c;
    uint64_t time_us = 100000, from, to;
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&a, 8 * MIB, one));
    from = reserved(pool);
    CHECK(from >= 8 * MIB && used(pool) == 8 * MIB);
    LAUNCH(kernel("spin_us"), one, &time_us);
    OK(cuMemFreeAsync(a, one));
    CHECK(used(pool) == 0);
    OK(cuMemAllocAsync(&b, 8 * MIB, one));
    CHECK(b == a && reserved(pool) == from);
    OK(cuMemFreeAsync(b, one));
    OK(cuMemAllocAsync(&c, 8 * MIB, two));
    CHECK(c != a); /* the first stream is still busy, and there is room for more */
    to = reserved(pool);
    CHECK(to > from);
    OK(cuMemFreeAsync(c, two));
    OK(cuStreamSynchronize(two));
    OK(cuStreamSynchronize(one));
    CHECK(reserved(pool) == 0 && used(pool) == 0); /* the threshold is 0 */
    CHECK(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == to);
    CHECK(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 8 * MIB);
    uint64_t none = 0, some = 1;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &some));
    CHECK(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    OK(cuStreamDestroy_v2(one));
    OK(cuStreamDestroy_v2(two));
}

/* Bytes written in a stream stay until it frees them, in pieces of all sizes. */
static void content(void)
{
    static unsigned char back[3 * MIB];
    CUdeviceptr at[32];
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < 32; i++) {
            OK(cuMemAllocAsync(&at[i], i * 70001 + 1, stream));
            CHECK(at[i] % 512 == 0);
            OK(cuMemsetD8Async(at[i], (unsigned char)(i + (size_t)round), i * 70001 + 1, stream));
        }
        for (size_t i = 0; i < 32; i++) {
            size_t bytes = i * 70001 + 1;
            OK(cuMemcpyDtoHAsync_v2(back, at[i], bytes, stream));
            OK(cuMemFreeAsync(at[i], stream));
            OK(cuStreamSynchronize(stream));
            for (size_t b = 0; b < bytes; b++) {
                CHECK(back[b] == (unsigned char)(i + (size_t)round));
            }
        }
    }
    OK(cuStreamDestroy_v2(stream));
}

static void thresholds(CUmemoryPool pool)
{
    CUdeviceptr a, b;
    size_t before = free_bytes();
    set_threshold(pool, UINT64_MAX);
    OK(cuMemAllocAsync(&a, 40 * MIB, NULL));
    OK(cuMemAllocAsync(&b, 20 * MIB, NULL));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuCtxSynchronize());
    CHECK(reserved(pool) == 60 * MIB && free_bytes() == before - 60 * MIB);
    OK(cuMemPoolTrimTo(pool, 30 * MIB)); /* nothing can go without going below */
    CHECK(reserved(pool) == 60 * MIB);
    OK(cuMemPoolTrimTo(pool, 20 * MIB));
    CHECK(reserved(pool) == 20 * MIB && free_bytes() == before - 20 * MIB);
    OK(cuMemFreeAsync(b, NULL));
    set_threshold(pool, 0);
    OK(cuCtxSynchronize());
    CHECK(reserved(pool) == 0 && free_bytes() == before);
}

/* Running out is an ordinary error, and what a pool keeps is given up for whoever needs it. */
static void runs_out(CUmemoryPool pool)
{
    CUdeviceptr at, other;
    set_threshold(pool, UINT64_MAX);
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&at, 1ull << 40, NULL));
    OK(cuMemAllocAsync(&at, 200 * MIB, NULL));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&other, 100 * MIB, NULL));
    OK(cuMemFreeAsync(at, NULL));
    OK(cuMemAllocAsync(&other, 210 * MIB, NULL)); /* the smaller one goes first */
    OK(cuMemFreeAsync(other, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(pool, 0));
    set_threshold(pool, 0);
}

/* Whoever waits for what was freed in another stream does not join a capture that has begun there. */
static void apart_from_captures(CUmemoryPool pool)
{
    CUstream one, two;
    CUdeviceptr at, other;
    CUstreamCaptureStatus status;
    CUgraph graph;
    uint64_t time_us = 200000;
    set_threshold(pool, UINT64_MAX);
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&at, 200 * MIB, one));
    LAUNCH(kernel("spin_us"), one, &time_us);
    OK(cuMemFreeAsync(at, one));
    OK(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult result = cuMemAllocAsync(&other, 200 * MIB, two);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuStreamIsCapturing(two, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamEndCapture(one, &graph));
    OK(cuGraphDestroy(graph));
    if (result == CUDA_SUCCESS) {
        OK(cuMemFreeAsync(other, two));
    }
    OK(cuStreamDestroy_v2(one));
    OK(cuStreamDestroy_v2(two));
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(reserved(pool) == 0);
    set_threshold(pool, 0);
}

static void explicit_pools(CUmemoryPool standard)
{
    CUmemPoolProps props = props_of(CU_MEM_HANDLE_TYPE_NONE);
    CUmemoryPool pool, now;
    CUdeviceptr a, b;
    CUmemAccess_flags access = 0;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    int number = 7;
    props.maxSize = 32 * MIB;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceGetMemPool(&now, 0));
    CHECK(now == standard);
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuDeviceGetMemPool(&now, 0));
    CHECK(now == pool);
    OK(cuMemAllocAsync(&a, MIB, NULL));
    CHECK(used(pool) == MIB && used(standard) == 0);
    OK(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    CHECK(now == pool);
    CUcontext context = (CUcontext)(void *)1;
    OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, a));
    CHECK(!context);
    OK(cuMemAllocFromPoolAsync(&b, MIB, standard, NULL));
    CHECK(used(standard) == MIB);
    OK(cuMemFree_v2(b)); /* either way will do */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(b, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a + 512, NULL));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&b, 40 * MIB, NULL));
    OK(cuMemPoolGetAccess(&access, pool, &here));
    CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &number));
    CHECK(number == 1);
    OK(cuMemPoolDestroy(pool)); /* its memory lives on until it is freed */
    OK(cuDeviceGetMemPool(&now, 0));
    CHECK(now == standard);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    OK(cuMemsetD8_v2(a, 1, MIB));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
    /* cuMemAlloc's memory may be freed in a stream's order, too */
    OK(cuMemAlloc_v2(&a, MIB));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
}

struct sent {
    CUmemPoolPtrExportData data;
    int pid, file;
};

/* Another process takes what this one exported. */
static void importer(int from, int to)
{
    struct sent sent;
    CUmemoryPool pool;
    CUdeviceptr at, more;
    char path[64];
    unsigned char back[1000];
    CHECK(read(from, &sent, sizeof(sent)) == (ssize_t)sizeof(sent));
    begin();
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", sent.pid, sent.file);
    FILE *file = fopen(path, "r");
    CHECK(file);
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fileno(file),
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&more, MIB, pool, NULL));
    OK(cuMemPoolImportPointer(&at, pool, &sent.data));
    OK(cuMemcpyDtoH_v2(back, at, sizeof(back)));
    for (size_t i = 0; i < sizeof(back); i++) {
        CHECK(back[i] == 0x5c);
    }
    OK(cuMemsetD8_v2(at, 0x6d, 1000));
    OK(cuMemFreeAsync(at, NULL));
    OK(cuCtxSynchronize());
    CHECK(write(to, "", 1) == 1);
    exit(0);
}

static void shared(int to, int from, pid_t child)
{
    CUmemPoolProps props = props_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    struct sent sent = {.pid = (int)getpid()};
    CUmemoryPool pool, standard;
    CUdeviceptr first, at;
    unsigned char back[1000];
    int status;
    char done;
    OK(cuDeviceGetDefaultMemPool(&standard, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuMemPoolExportToShareableHandle(&sent.file, standard,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolExportToShareableHandle(&sent.file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                        0));
    OK(cuMemAllocFromPoolAsync(&first, 300, pool, NULL));
    OK(cuMemAllocFromPoolAsync(&at, 1000, pool, NULL));
    OK(cuMemsetD8_v2(at, 0x5c, 1000));
    OK(cuCtxSynchronize());
    OK(cuMemPoolExportPointer(&sent.data, at));
    CHECK(write(to, &sent, sizeof(sent)) == (ssize_t)sizeof(sent));
    CHECK(read(from, &done, 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(cuMemcpyDtoH_v2(back, at, sizeof(back)));
    for (size_t i = 0; i < sizeof(back); i++) {
        CHECK(back[i] == 0x6d);
    }
    OK(cuMemFreeAsync(first, NULL));
    OK(cuMemFreeAsync(at, NULL));
    OK(cuMemPoolDestroy(pool));
}

int main(void)
{
    CUmemoryPool pool;
    int there[2], back[2], supported = 0;
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(there[1]); /* so that it ends when this process fails */
        importer(there[0], back[1]);
    }
    begin();
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    CHECK(supported == 1);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    order(pool);
    content();
    thresholds(pool);
    runs_out(pool);
    apart_from_captures(pool);
    explicit_pools(pool);
    shared(there[1], back[0], child);
    printf("ok\n");
    return 0;
}
