/* A program that fills the GPU:  steady KERNELS SPIN_US AHEAD SECONDS [GATE]
 *
 * Queues AHEAD kernels that take SPIN_US each, waits for them, and so on, as a training loop does.
 * Prints "ready" when it can begin, does so when nobody locks the file GATE, and prints how many
 * kernels have run when SECONDS are over, or at SIGTERM. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>

#include "bench.h"

static volatile sig_atomic_t ends;

static void end(int signal)
{
    (void)signal;
    ends = 1;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUdeviceptr at;
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: steady KERNELS SPIN_US AHEAD SECONDS [GATE]\n");
        return 2;
    }
    u64 us = strtoull(argv[2], NULL, 10), ahead = strtoull(argv[3], NULL, 10), done = 0;
    u64 lasts_ns = (u64)(strtod(argv[4], NULL) * 1e9);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[1]));
    MUST(cuModuleGetFunction(&spin, module, "spin_us"));
    MUST(cuMemAlloc_v2(&at, 1 << 20));
    signal(SIGTERM, end);
    puts("ready");
    fflush(stdout);
    if (argc == 6 && flock(open(argv[5], O_RDONLY), LOCK_SH) != 0) {
        perror(argv[5]);
        return 1;
    }
    for (u64 until = now_ns() + lasts_ns; now_ns() < until && !ends; done += ahead) {
        for (u64 i = 0; i < ahead; i++) {
            MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&us}, NULL));
        }
        MUST(cuCtxSynchronize());
    }
    printf("%llu\n", done);
    return 0;
}
