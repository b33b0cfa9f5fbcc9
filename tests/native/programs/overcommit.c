/* Asks for memory, and writes a part of it:  overcommit MIB
 * It says "asked", or "refused". Then each line that it reads is a number of MiB: it writes to so much from the start of its
 * memory, looks at all of it, and says how many words are wrong; what it never wrote has to be zero. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr at;
    char line[32];
    if (argc != 2) {
        return 2;
    }
    size_t bytes = strtoul(argv[1], NULL, 10) * MIB;
    size_t written = 0;
    unsigned seed = (unsigned)getpid();
    static unsigned *copy; /* reachable to the end */
    copy = bytes && bytes <= 4096 * MIB ? malloc(bytes) : NULL;
    if (!copy) {
        return 2;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    if (cuMemAlloc_v2(&at, bytes) != CUDA_SUCCESS) {
        say("refused");
        return 0;
    }
    say("asked");
    while (fgets(line, sizeof(line), stdin)) {
        size_t more = strtoul(line, NULL, 10) * MIB;
        written = more > written && more <= bytes ? more : written;
        size_t wrong = 0;
        if (more) {
            OK(cuMemsetD32_v2(at, seed, more / 4));
        }
        OK(cuMemcpyDtoH_v2(copy, at, bytes));
        for (size_t i = 0; i < bytes / 4; i++) {
            wrong += copy[i] != (i < written / 4 ? seed : 0);
        }
        printf("%zu wrong\n", wrong);
        fflush(stdout);
    }
    free(copy);
    return 0;
}
