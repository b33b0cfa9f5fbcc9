/* A kernel whose code the driver loads with the first launch, and finds no memory for at first.
 *
 *   lazy_kernel   with KERNELS */
#include <dlfcn.h>

#include "simgpu/api/inspect.h"
#include "simgpu_check.h"

#define FOR_EVER 1000000

static void fail(unsigned long long count)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void (*next)(const char *, uint64_t, uint64_t, int) =
        (__typeof__(next))dlsym(driver, "simgpu_fail_launches");
    next("add_u32", 0, count, CUDA_ERROR_OUT_OF_MEMORY);
}

int main(void)
{
    CUdeviceptr at;
    uint32_t one = 1, word = 0;
    begin();
    CUfunction add = kernel("add_u32");
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    OK(cuMemAlloc_v2(&at, 4));
    OK(cuMemsetD32_v2(at, 0, 1));
    fail(1);
    LAUNCH(add, NULL, &at, &one);
    fail(1);
    OK(cuLaunchKernelEx(&config, add, (void *[]){&at, &one}, NULL));
    OK(cuMemcpyDtoH_v2(&word, at, 4));
    CHECK(word == 2); /* each ran once */
    fail(FOR_EVER);
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
           cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &one}, NULL));
    puts("ok");
    return 0;
}
