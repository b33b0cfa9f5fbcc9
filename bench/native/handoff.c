/* A program with timed kernels that says when it submitted:  handoff KEY=NUMBER ...
 *
 * bytes     what it allocates first, and fills with data
 * zeros     1: leaves it all zeros
 * kernel    microseconds that a kernel takes
 * row       kernels that are submitted before the program waits for them
 * sleep     microseconds of sleep after each row, of which a third at random
 * on, off   milliseconds during which it submits and is silent, by turns; off=0: always
 * seconds   until it ends
 * least     submissions that took fewer microseconds are not printed
 * calls     print what each row took, from its first submission to its end, instead
 * charged   1: all times are by simgpu's clock
 *
 * Prints, once it ends, "L BEGIN END" for submissions and "S TIME" for the last end of work before
 * each silence: nanoseconds of CLOCK_MONOTONIC, or of simgpu's clock. KERNELS names the module. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

#define PRINTED_MAX 1000000
#define OK(call)                                                       \
    if ((call) != CUDA_SUCCESS) {                                      \
        fprintf(stderr, "handoff.c:%d: %s failed\n", __LINE__, #call); \
        return 1;                                                      \
    }

static struct {
    char kind;
    uint64_t began_ns, ended_ns;
} printed[PRINTED_MAX];
static size_t count;
static uint64_t charged;

uint64_t simgpu_now_ns(void);

static uint64_t clock_ns(void)
{
    struct timespec now;
    if (charged) {
        return simgpu_now_ns();
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static uint64_t number(int argc, char **argv, const char *key, uint64_t otherwise)
{
    size_t length = strlen(key);
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], key, length) && argv[i][length] == '=') {
            return strtoull(argv[i] + length + 1, NULL, 10);
        }
    }
    return otherwise;
}

static void note(char kind, uint64_t began_ns, uint64_t ended_ns)
{
    if (count < PRINTED_MAX) {
        printed[count].kind = kind;
        printed[count].began_ns = began_ns;
        printed[count++].ended_ns = ended_ns;
    }
}

/* From 0 to 65535: programs that sleep equally long would fall into step with each other. */
static uint64_t throw(uint64_t *dice)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return *dice >> 48;
}

int main(int argc, char **argv)
{
    uint64_t bytes = number(argc, argv, "bytes", 1 << 20);
    uint64_t kernel_us = number(argc, argv, "kernel", 20);
    uint64_t row = number(argc, argv, "row", 1);
    uint64_t sleep_us = number(argc, argv, "sleep", 0);
    uint64_t on_ns = number(argc, argv, "on", 100) * 1000000;
    uint64_t off_ns = number(argc, argv, "off", 0) * 1000000;
    uint64_t least_ns = number(argc, argv, "least", 0) * 1000;
    uint64_t whole = number(argc, argv, "calls", 0);
    charged = number(argc, argv, "charged", 0);
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUfunction fill;
    CUdeviceptr memory;
    uint64_t words = bytes / 8;
    uint64_t seed = 1;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, getenv("KERNELS")));
    OK(cuModuleGetFunction(&spin, module, "spin_us"));
    OK(cuModuleGetFunction(&fill, module, "fill_u64"));
    OK(cuMemAlloc_v2(&memory, bytes));
    if (!number(argc, argv, "zeros", 0)) {
        OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&memory, &words, &seed},
                          NULL));
    }
    OK(cuCtxSynchronize());
    puts("ready");
    fflush(stdout);
    uint64_t turn_ns = clock_ns();
    uint64_t end_ns = turn_ns + number(argc, argv, "seconds", 5) * 1000000000;
    uint64_t dice = turn_ns;
    for (uint64_t now = turn_ns; now < end_ns; now = clock_ns()) {
        uint64_t first_ns = now;
        for (uint64_t i = 0; i < row; i++) {
            uint64_t began_ns = clock_ns();
            OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&kernel_us}, NULL));
            uint64_t ended_ns = clock_ns();
            if (!whole && ended_ns - began_ns >= least_ns) {
                note('L', began_ns, ended_ns);
            }
        }
        OK(cuCtxSynchronize());
        uint64_t ended_ns = clock_ns();
        if (whole) {
            note('L', first_ns, ended_ns);
        }
        if (off_ns && ended_ns - turn_ns >= on_ns) {
            note('S', ended_ns, ended_ns);
            usleep((useconds_t)(off_ns / 1000));
            turn_ns = clock_ns();
        } else if (sleep_us) {
            uint64_t part = sleep_us * 2 / 3;
            usleep((useconds_t)(part + part * throw(&dice) / 65535));
        }
    }
    for (size_t i = 0; i < count; i++) {
        printf("%c %llu %llu\n", printed[i].kind, (unsigned long long)printed[i].began_ns,
               (unsigned long long)printed[i].ended_ns);
    }
    return 0;
}
