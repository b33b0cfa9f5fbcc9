/* A program that has another library of the driver's name beside the driver.
 *     stub_first LIBRARY [DRIVER]
 *
 * It loads the library first, and the driver after it. For each function that it finds it prints the name of the
 * library that has it, and what cuInit of each returns. With -DSTUB this is the library: every call says
 * that it is a stub, as of the toolkit's; with -DHELPER it is one that exports nothing of the driver's. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda_abi.h"

#if defined(STUB)
#    define STUB_CALL(name)  \
        CUresult name(void); \
        CUresult name(void) { return CUDA_ERROR_STUB_LIBRARY; }
STUB_CALL(cuInit)
STUB_CALL(cuDriverGetVersion)
STUB_CALL(cuDeviceGetCount)
STUB_CALL(cuMemAlloc_v2)
#elif defined(HELPER)
int helper(void);
int helper(void) { return 1; }
#else
static void look(const char *which, void *library)
{
    Dl_info where = {0};
    void *alloc = dlsym(library, "cuMemAlloc_v2");
    CUresult (*init)(unsigned) = (CUresult (*)(unsigned))dlsym(library, "cuInit");
    if (alloc && dladdr(alloc, &where)) {
        const char *base = strrchr(where.dli_fname, '/');
        printf("%s %s %d\n", which, base ? base + 1 : where.dli_fname, init ? (int)init(0) : -1);
    } else {
        printf("%s none\n", which);
    }
}

// NOLINTBEGIN(clang-analyzer-optin.taint.GenericTaint) the test names the libraries
int main(int argc, char **argv)
{
    void *first = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!first) {
        fprintf(stderr, "stub_first: %s\n", argc > 1 ? dlerror() : "which library?");
        return 2;
    }
    look("first", first);
    look("any", RTLD_DEFAULT);
    if (argc > 2) {
        void *driver = dlopen(argv[2], RTLD_NOW);
        if (!driver) {
            fprintf(stderr, "stub_first: %s\n", dlerror());
            return 2;
        }
        look("driver", driver);
        look("first", first);
    }
    return 0;
}
// NOLINTEND(clang-analyzer-optin.taint.GenericTaint)
#endif
