/* A pool that keeps everything, with a small piece left in each of its segments:  scattered KERNELS HOW
 *
 * Then four fifths of the GPU's memory are allocated (HOW: pool, or plain for cuMemAlloc), although the
 * pool has reserved more than the rest. Says how many bytes are allocated then, and until SIGUSR1 uses
 * all of it in turns. Prints how many words were wrong. */
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define KIB 1024ull
#define SEGMENT (16 * MIB)
#define SMALL (64 * KIB)
#define SEGMENTS_MAX 64

static volatile sig_atomic_t enough;
static CUmemoryPool pool;
static CUdeviceptr small[SEGMENTS_MAX], rest[SEGMENTS_MAX];
static CUdeviceptr errors;

static void stop(int signal)
{
    (void)signal;
    enough = 1;
}

static uint64_t ask(CUmemPool_attribute what)
{
    uint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, what, &value));
    return value;
}

static void fill(CUdeviceptr at, uint64_t bytes, uint64_t seed)
{
    uint64_t words = bytes / 8;
    LAUNCH(kernel("fill_u64"), NULL, &at, &words, &seed);
}

static void verify(CUdeviceptr at, uint64_t bytes, uint64_t seed)
{
    CUdeviceptr none = 0;
    uint64_t words = bytes / 8, no_steps = 0;
    LAUNCH(kernel("check_u64"), NULL, &at, &words, &seed, &none, &no_steps, &errors);
}

/* In each segment a small piece, and one that takes all the rest of it. */
static void scatter(size_t segments)
{
    for (size_t i = 0; i < segments; i++) {
        CUdeviceptr whole;
        OK(cuMemAllocAsync(&whole, SEGMENT, NULL));
        OK(cuMemFreeAsync(whole, NULL));
        OK(cuMemAllocAsync(&small[i], SMALL, NULL));
        OK(cuMemAllocAsync(&rest[i], SEGMENT - SMALL, NULL));
        CHECK(small[i] == whole && rest[i] == whole + SMALL);
        fill(small[i], SMALL, i);
        fill(rest[i], SEGMENT - SMALL, i);
    }
    CHECK(ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == segments * SEGMENT);
    for (size_t i = 0; i < segments; i++) {
        OK(cuMemFreeAsync(rest[i], NULL));
    }
    OK(cuCtxSynchronize());
    CHECK(ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == segments * SEGMENT);
    CHECK(ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == segments * SMALL);
}

int main(int argc, char **argv)
{
    uint64_t everything = UINT64_MAX, wrong = 0;
    size_t total, left, before, after;
    CUdeviceptr large;
    CHECK(argc == 3);
    setenv("KERNELS", argv[1], 1);
    int plain = strcmp(argv[2], "plain") == 0;
    signal(SIGUSR1, stop);
    begin();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
    OK(cuMemAlloc_v2(&errors, 8));
    OK(cuMemsetD8_v2(errors, 0, 8));
    OK(cuMemGetInfo_v2(&before, &total));
    size_t segments = before / SEGMENT;
    uint64_t bytes = total / 5 * 4 / MIB * MIB;
    CHECK(segments < SEGMENTS_MAX && segments * SEGMENT + bytes > total);
    scatter(segments);
    OK(plain ? cuMemAlloc_v2(&large, bytes) : cuMemAllocAsync(&large, bytes, NULL));
    uint64_t reserved = ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    OK(cuMemGetInfo_v2(&left, &total));
    CHECK(before - left >= bytes && before - left < bytes + segments * SEGMENT / 2);
    CHECK(plain ? reserved < segments * SEGMENT / 2 : reserved == before - left);
    CHECK(ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == segments * SMALL + (plain ? 0 : bytes));
    printf("%llu\n", (unsigned long long)(total - left));
    fflush(stdout);
    for (uint64_t seed = 99; !enough; seed++) {
        fill(large, bytes, seed);
        for (size_t i = 0; i < segments; i++) {
            verify(small[i], SMALL, i);
        }
        verify(large, bytes, seed);
        OK(cuCtxSynchronize());
    }
    /* what lies beside a small piece in its chunk is still good for pieces */
    OK(cuMemAllocAsync(&rest[0], SMALL, NULL));
    CHECK(ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == reserved);
    OK(cuMemFreeAsync(rest[0], NULL));
    for (size_t i = 0; i < segments; i++) {
        OK(cuMemFreeAsync(small[i], NULL));
    }
    OK(plain ? cuMemFree_v2(large) : cuMemFreeAsync(large, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(after == before);
    OK(cuMemcpyDtoH_v2(&wrong, errors, 8));
    printf("%llu words wrong\n", (unsigned long long)wrong);
    return wrong ? 3 : 0;
}
