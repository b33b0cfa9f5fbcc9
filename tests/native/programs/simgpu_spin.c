/* simgpu_spin MS: says that it is ready, waits for a line, keeps the GPU busy for so long, prints how long it took. */
#include <stdint.h>
#include <time.h>

#include "simgpu_check.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    begin();
    uint64_t us = strtoull(argv[1], NULL, 10) * 1000;
    CUfunction spin = kernel("spin_us");
    puts("ready");
    fflush(stdout);
    getchar();
    double start = now_s();
    LAUNCH(spin, NULL, &us);
    OK(cuCtxSynchronize());
    printf("%f %f\n", start, now_s());
    return 0;
}
