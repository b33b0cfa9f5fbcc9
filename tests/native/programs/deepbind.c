/* Programs that load the driver where a preloaded library would not be asked.
 *
 *   deepbind FLAGS WAY
 *
 * Loads a library (this file, built with -DLIBRARY; the program is built with its path, as LOADS) with
 * RTLD_DEEPBIND if FLAGS is "deep", and has it allocate 10 MiB: WAY "linked" calls the driver directly,
 * "looked-up" loads libcuda.so.1 and asks dlsym, "by-path" loads DRIVER, a path, and does the same. Says
 * "ready" and waits for a line. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"

#ifndef DRIVER
#    define DRIVER "libcuda.so.1"
#endif
#ifndef LOADS
#    define LOADS "deep.so"
#endif

#ifdef LIBRARY

static int take(__typeof__(cuInit) *init, __typeof__(cuDevicePrimaryCtxRetain) *retain,
                __typeof__(cuCtxSetCurrent) *set, __typeof__(cuMemAlloc_v2) *alloc)
{
    CUcontext context;
    CUdeviceptr at;
    return init(0) || retain(&context, 0) || set(context) || alloc(&at, 10u << 20);
}

__attribute__((visibility("default"))) int use_gpu(const char *way, int flags)
{
    if (strcmp(way, "linked") == 0) {
        return take(cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent, cuMemAlloc_v2);
    }
    void *driver = dlopen(strcmp(way, "by-path") == 0 ? DRIVER : "libcuda.so.1", flags);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    return take((__typeof__(cuInit) *)dlsym(driver, "cuInit"),
                (__typeof__(cuDevicePrimaryCtxRetain) *)dlsym(driver, "cuDevicePrimaryCtxRetain"),
                (__typeof__(cuCtxSetCurrent) *)dlsym(driver, "cuCtxSetCurrent"),
                (__typeof__(cuMemAlloc_v2) *)dlsym(driver, "cuMemAlloc_v2"));
}

#else

int main(int argc, char **argv)
{
    char line[16];
    if (argc < 3) {
        return 64;
    }
    int flags = RTLD_NOW | RTLD_LOCAL | (strcmp(argv[1], "deep") == 0 ? RTLD_DEEPBIND : 0);
    void *library = dlopen(LOADS, flags);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 65;
    }
    int (*use)(const char *, int) = (int (*)(const char *, int))dlsym(library, "use_gpu");
    int result = use(argv[2], flags);
    if (result) {
        fprintf(stderr, "failed with error %d\n", result);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    return fgets(line, sizeof(line), stdin) ? 0 : 2;
}

#endif
