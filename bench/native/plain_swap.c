/* What the driver alone takes to copy BYTES out and as many in, both ways at once, in pieces and from
 * and to registered memory:  plain_swap BYTES. Prints the seconds of the quickest of three. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cuda/cuda_calls.h"

#define PIECE (4ull << 20)
#define TIMES 3

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "plain_swap: %s failed with error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

int main(int argc, char **argv)
{
    CUcontext context;
    CUstream out, in;
    CUdeviceptr from, to;
    double best = 0;
    unsigned long long bytes = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    if (bytes == 0) {
        fprintf(stderr, "usage: %s BYTES\n", argv[0]);
        return 2;
    }
    /* A card holds one such piece of memory at a time; what is copied makes no difference. */
    unsigned long long part = bytes < (256ull << 20) ? bytes : 256ull << 20;
    char *host = mmap(NULL, 2 * part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&from, part));
    MUST(cuMemAlloc_v2(&to, part));
    memset(host, 1, 2 * part);
    MUST(cuMemHostRegister_v2(host, 2 * part, 0));
    MUST(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i <= TIMES; i++) { /* the first touches everything */
        double began = now_s();
        for (unsigned long long at = 0; at < bytes; at += PIECE) {
            unsigned long long offset = at % part;
            MUST(cuMemcpyDtoHAsync_v2(host + offset, from + offset, PIECE, out));
            MUST(cuMemcpyHtoDAsync_v2(to + offset, host + part + offset, PIECE, in));
        }
        MUST(cuCtxSynchronize());
        double took = now_s() - began;
        best = i == 1 || took < best ? took : best;
    }
    printf("%f\n", best);
    return 0;
}
