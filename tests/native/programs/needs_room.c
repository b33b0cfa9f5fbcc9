/* Fills memory, loads code, and looks whether its memory is what it was:
 *     needs_room KERNELS MIB MODULES
 * After each step it prints one line, and reads one before it goes on. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)
#define OK(call)                                                \
    do {                                                        \
        CUresult result_ = (call);                              \
        if (result_ != CUDA_SUCCESS) {                          \
            fprintf(stderr, "%s is %d\n", #call, (int)result_); \
            return 1;                                           \
        }                                                       \
    } while (0)

static void pause_for_test(void)
{
    char line[16];
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        exit(3);
    }
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUdeviceptr at;
    if (argc != 4) {
        return 2;
    }
    size_t bytes = strtoul(argv[2], NULL, 10) * MIB;
    if (bytes > 4096 * MIB) {
        return 2;
    }
    int modules = atoi(argv[3]);
    int loaded = 0;
    CUresult result = CUDA_SUCCESS;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&at, bytes));
    OK(cuMemsetD32_v2(at, (unsigned int)bytes + 7, bytes / 4));
    OK(cuCtxSynchronize());
    printf("filled\n");
    pause_for_test();
    while (loaded < modules && result == CUDA_SUCCESS) {
        result = cuModuleLoad(&module, argv[1]);
        loaded += result == CUDA_SUCCESS;
    }
    printf("loaded %d, then %d\n", loaded, (int)result);
    pause_for_test();
    unsigned int *copy = malloc(bytes);
    OK(cuMemcpyDtoH_v2(copy, at, bytes));
    size_t wrong = 0;
    for (size_t i = 0; copy && i < bytes / 4; i++) {
        wrong += copy[i] != (unsigned int)bytes + 7;
    }
    free(copy);
    printf("%zu words wrong\n", wrong);
    fflush(stdout);
    return wrong != 0;
}
