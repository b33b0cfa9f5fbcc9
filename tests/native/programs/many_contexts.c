/* A program with many contexts on one GPU: each allocates, and what is left after some ended still does.
 *
 *   many_contexts */
#include "simgpu_check.h"

#define CONTEXTS 80
#define BYTES (1u << 16)

static void use(void)
{
    CUdeviceptr at;
    uint32_t word = 0;
    OK(cuMemAlloc_v2(&at, BYTES));
    OK(cuMemsetD32_v2(at, 7, BYTES / 4));
    OK(cuMemcpyDtoH_v2(&word, at + BYTES - 4, 4));
    CHECK(word == 7);
    OK(cuMemFree_v2(at));
}

int main(void)
{
    CUcontext contexts[CONTEXTS];
    CUcontext popped;
    OK(cuInit(0));
    for (int i = 0; i < CONTEXTS; i++) {
        OK(cuCtxCreate_v2(&contexts[i], 0, 0));
        use();
        OK(cuCtxPopCurrent_v2(&popped));
    }
    for (int i = 0; i < CONTEXTS; i += 2) {
        OK(cuCtxDestroy_v2(contexts[i]));
    }
    for (int i = 1; i < CONTEXTS; i += 2) {
        OK(cuCtxSetCurrent(contexts[i]));
        use();
    }
    puts("ok");
    return 0;
}
