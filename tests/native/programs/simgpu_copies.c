/* How long copies take: never less than the link allows. Prints seconds: one way, both ways, pageable. */
#include <stdint.h>
#include <time.h>

#include "simgpu_check.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(void)
{
    begin();
    size_t bytes = 32u << 20;
    CUdeviceptr p, q;
    void *in, *out, *pageable = malloc(bytes);
    CUstream a, b;
    OK(cuMemAlloc_v2(&p, bytes));
    OK(cuMemAlloc_v2(&q, bytes));
    OK(cuMemAllocHost_v2(&in, bytes));
    OK(cuMemHostAlloc(&out, bytes, 0));
    memset(in, 1, bytes);
    memset(pageable, 1, bytes);
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));

    double start = now_s();
    OK(cuMemcpyHtoDAsync_v2(p, in, bytes, a));
    OK(cuStreamSynchronize(a));
    double one = now_s() - start;

    OK(cuMemcpyHtoD_v2(q, in, bytes));
    start = now_s();
    OK(cuMemcpyHtoDAsync_v2(p, in, bytes, a));
    OK(cuMemcpyDtoHAsync_v2(out, q, bytes, b));
    OK(cuCtxSynchronize());
    double both = now_s() - start;

    start = now_s();
    OK(cuMemcpyHtoD_v2(p, pageable, bytes));
    double slow = now_s() - start;
    CHECK(memcmp(in, out, bytes) == 0);

    /* A pitched copy moves what it should and nothing else. */
    unsigned char rows[4][8], back[4][8];
    memset(rows, 5, sizeof rows);
    OK(cuMemsetD8_v2(p, 0, 4096));
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = rows,
                           .srcPitch = 8,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = p,
                           .dstPitch = 512,
                           .dstXInBytes = 1,
                           .WidthInBytes = 3,
                           .Height = 4};
    OK(cuMemcpy2D_v2(&plane));
    for (int y = 0; y < 4; y++) {
        OK(cuMemcpyDtoH_v2(back[y], p + (CUdeviceptr)y * 512, 8));
    }
    for (int y = 0; y < 4; y++) {
        CHECK(memcmp(back[y], "\0\5\5\5\0\0\0\0", 8) == 0);
    }
    printf("%f %f %f\n", one, both, slow);
    return 0;
}
