/* The clock of a machine with `charged`:  simgpu_charged measure | hold | wait
 *
 * measure: hashes 256 MiB once and prints, in ns, how much CLOCK_MONOTONIC went on, how much simgpu's clock, and the
 * processor time. hold: prints "ready" and hashes until it is killed. wait: prints "stands" once the clock stands still,
 * and after a line of stdin, when a kernel has ended, "goes on". */
#include <stdint.h>
#include <time.h>

#include "simgpu/api/inspect.h"
#include "simgpu_check.h"

#define MIB (1ull << 20)
#define CHUNK (4 * MIB)
#define CHUNKS 64u /* all of them the same memory */
#define PAGE_BYTES MIB

struct keys {
    uint64_t of[54];
};

static uint64_t ns_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void hash(void)
{
    static uint64_t *page;
    static CUdeviceptr chunk;
    uint32_t first = 0;
    struct keys keys = {{3, 5, 7}};
    if (!page) {
        OK(cuMemHostAlloc((void **)&page, PAGE_BYTES, 0));
        OK(cuMemAlloc_v2(&chunk, CHUNK));
        OK(cuMemsetD8_v2(chunk, 1, CHUNK));
        memset(page, 0, PAGE_BYTES);
        for (uint32_t i = 0; i < CHUNKS; i++) {
            page[(size_t)2 * i] = chunk;
            page[(size_t)2 * i + 1] = chunk + CHUNK;
        }
    }
    OK(cuLaunchKernel(kernel("moiety_hash"), CHUNKS, 32, 1, 1024, 1, 1, 0, NULL,
                      (void *[]){&page, &first, &keys}, NULL));
    OK(cuCtxSynchronize());
}

static void measure(void)
{
    uint64_t real = ns_of(CLOCK_MONOTONIC), simulated = simgpu_now_ns(),
             used = ns_of(CLOCK_PROCESS_CPUTIME_ID);
    hash();
    used = ns_of(CLOCK_PROCESS_CPUTIME_ID) - used;
    simulated = simgpu_now_ns() - simulated;
    real = ns_of(CLOCK_MONOTONIC) - real;
    printf("%llu %llu %llu\n", (unsigned long long)real, (unsigned long long)simulated,
           (unsigned long long)used);
}

static void wait_for_others(void)
{
    uint64_t us = 1000, seen = 0;
    CUfunction spin = kernel("spin_us");
    while (seen != simgpu_now_ns()) { /* twice the same: it stands still */
        seen = simgpu_now_ns();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    puts("stands");
    fflush(stdout);
    getchar();
    LAUNCH(spin, NULL, &us);
    OK(cuCtxSynchronize());
    puts("goes on");
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    begin();
    if (strcmp(argv[1], "measure") == 0) {
        hash(); /* the memory is there from now on */
        measure();
    } else if (strcmp(argv[1], "wait") == 0) {
        wait_for_others();
    } else {
        puts("ready");
        fflush(stdout);
        for (;;) {
            hash();
        }
    }
    return 0;
}
