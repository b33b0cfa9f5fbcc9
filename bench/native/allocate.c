/* Allocates 1 GiB in pieces of 64 MiB and prints how many ns that took:  allocate */
#include "bench.h"

#define PIECE (64ull << 20)
#define PIECES 16

int main(void)
{
    CUcontext context;
    CUdeviceptr at[PIECES];
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&at[0], 1 << 20)); /* what happens once only */
    u64 began_ns = now_ns();
    for (int i = 0; i < PIECES; i++) {
        MUST(cuMemAlloc_v2(&at[i], PIECE));
    }
    printf("%llu\n", now_ns() - began_ns);
    return 0;
}
