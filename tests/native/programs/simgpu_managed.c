/* simgpu_managed MIB SWEEPS: sweeps over managed memory; prints the faults of the GPU in each sweep. */
#include <dlfcn.h>
#include <stdint.h>

#include "simgpu/api/inspect.h"
#include "simgpu_check.h"

int main(int argc, char **argv)
{
    struct simgpu_counters now, last = {0};
    int (*counters)(struct simgpu_counters *) =
        (int (*)(struct simgpu_counters *))dlsym(RTLD_DEFAULT, "simgpu_counters");
    CHECK(argc == 3);
    begin();
    uint64_t bytes = strtoull(argv[1], NULL, 10) << 20, n = bytes / 8, stride = (2u << 20) / 8;
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
    uint64_t *words = (uint64_t *)(uintptr_t)p;
    words[0] = 100; /* the host may write first */
    for (int i = 0; i < atoi(argv[2]); i++) {
        LAUNCH(kernel("touch_u64"), NULL, &p, &n, &stride);
        OK(cuCtxSynchronize());
        OK(counters(&now) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
        printf("%llu ", (unsigned long long)(now.faults - last.faults));
        last = now;
    }
    /* Every word was counted up in every sweep, wherever it was in between. */
    CHECK(words[0] == 100 + strtoull(argv[2], NULL, 10));
    for (uint64_t i = stride; i < n; i += stride) {
        CHECK(words[i] == strtoull(argv[2], NULL, 10));
    }
    /* What was moved to the host, the GPU must fetch again; what was moved to the GPU, it has. */
    OK(cuMemPrefetchAsync(p, 8, CU_DEVICE_CPU, NULL));
    OK(cuCtxSynchronize());
    OK(counters(&last) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    uint64_t one = 1;
    LAUNCH(kernel("touch_u64"), NULL, &p, &one, &one);
    OK(cuCtxSynchronize());
    OK(counters(&now) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    CHECK(now.faults == last.faults + 1);
    OK(cuMemPrefetchAsync(p, 8, CU_DEVICE_CPU, NULL));
    OK(cuMemPrefetchAsync(p, 8, 0, NULL));
    LAUNCH(kernel("touch_u64"), NULL, &p, &one, &one);
    OK(cuCtxSynchronize());
    last = now;
    OK(counters(&now) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    CHECK(now.faults == last.faults);
    OK(cuMemFree_v2(p));
    size_t available, total;
    OK(cuMemGetInfo_v2(&available, &total));
    printf("free %zu\n", available >> 20);
    return 0;
}
