/* A server that is asked seldom:  wakes KERNELS BYTES
 *
 * Fills BYTES and prints "ready". For each line of stdin it launches a short kernel, waits for its end, and prints how
 * many ns the call that launched it took. Without KERNELS ("-") it only has the memory. Exit code 0: in the end every
 * byte is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filled.h"
#include "simgpu/api/inspect.h"

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module = NULL;
    CUdeviceptr at;
    char line[16];
    u64 seed = FILLED_SEED, us = 10;
    if (argc != 3) {
        fprintf(stderr, "usage: wakes KERNELS BYTES\n");
        return 2;
    }
    int works = strcmp(argv[1], "-") != 0;
    u64 words = strtoull(argv[2], NULL, 10) / 8;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&at, words * 8));
    if (works) {
        MUST(cuModuleLoad(&module, argv[1]));
        launch(module, "fill_u64", (void *[]){&at, &words, &seed});
        MUST(cuCtxSynchronize());
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        u64 began = simgpu_now_ns();
        launch(module, "spin_us", (void *[]){&us});
        u64 returned = simgpu_now_ns();
        MUST(cuCtxSynchronize());
        printf("%llu\n", returned - began);
        fflush(stdout);
    }
    return works && wrong_words(at, words, 1, 0) ? 3 : 0;
}
