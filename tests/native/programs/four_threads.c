/* Four threads launch as fast as they can until stdin closes; whoever drives the test revokes and
 * grants meanwhile.  four_threads KERNELS
 *
 * For each line on stdin it prints "LAUNCHES LAST_NS": how many launches have reached the driver,
 * and when (CLOCK_MONOTONIC) the last one did. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "cuda/cuda_calls.h"
#include "simgpu/api/inspect.h"

#define THREADS 4

static CUcontext context;
static CUfunction nop;
static atomic_int stop;
static atomic_int failed;

static void *submit(void *unused)
{
    CUstream stream;
    cuCtxSetCurrent(context);
    if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        atomic_store(&failed, 1);
        return unused;
    }
    for (unsigned n = 1; !atomic_load(&stop); n++) {
        if (n % 32 == 0) {
            cuStreamSynchronize(stream); /* or a drain would take as long as the queue is long */
        }
        if (cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) != CUDA_SUCCESS) {
            atomic_store(&failed, 1);
        }
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    CUdevice device;
    CUmodule module;
    char line[16];
    int (*counters)(struct simgpu_counters *);
    if (argc != 2 || cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuModuleLoad(&module, argv[1]) != CUDA_SUCCESS ||
        cuModuleGetFunction(&nop, module, "nop") != CUDA_SUCCESS) {
        fprintf(stderr, "four_threads: could not start\n");
        return 1;
    }
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    counters = driver ? (__typeof__(counters))dlsym(driver, "simgpu_counters") : NULL;
    if (!counters) {
        fprintf(stderr, "four_threads: this is not simgpu\n");
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, submit, NULL);
    }
    while (fgets(line, sizeof(line), stdin)) {
        struct simgpu_counters now;
        counters(&now);
        printf("%llu %llu\n", (unsigned long long)now.launches, (unsigned long long)now.last_ns);
        fflush(stdout);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return atomic_load(&failed);
}
