/* What a test may ask the stand-in driver about the calling process, beside the driver API, and what
 * it may have go wrong there.
 *
 *   int (*simgpu_counters)(struct simgpu_counters *) = dlsym(driver, "simgpu_counters");
 */
#ifndef SIMGPU_INSPECT_H
#define SIMGPU_INSPECT_H

#include <stdint.h>

struct simgpu_counters {
    uint64_t launches; /* kernels that reached the driver, those of graphs included */
    uint64_t graph_launches;
    uint64_t copies;
    uint64_t copied_bytes;
    uint64_t memsets;
    uint64_t host_functions;
    uint64_t last_ns;   /* CLOCK_MONOTONIC of the last of all these */
    uint64_t faults;    /* managed memory moved in on access by the GPU */
    uint64_t evictions; /* managed memory of this process moved out */
    uint64_t contexts;  /* created so far */
    uint64_t busy_ns;   /* GPU time used */
    uint64_t reserved[5];
};

/* 0, or -1 before cuInit. */
int simgpu_counters(struct simgpu_counters *out);

/* From now on the calling process' next `after` copies in one direction (to the GPU, or from it to
 * the host) succeed, and the `count` that follow return `result` and copy nothing. */
void simgpu_fail_copies(int to_gpu, uint64_t after, uint64_t count, int result);

/* An error of a GPU, as the driver's log would have it under this number (XID): ends what the process
 * `pid` has there, or (0) everybody's. 79: the GPU has fallen off the bus. -1: no such GPU, or before
 * cuInit. */
int simgpu_fault(unsigned gpu, unsigned xid, unsigned pid);

/* The bytes of a CUuuid for which cuGetExportTable has a table, with one function in it. */
#define SIMGPU_EXPORT_TABLE \
    {0x6d, 0x6f, 0x69, 0x65, 0x74, 0x79, 0, 1, 2, 3, 4, 5, 6, 7, (char)0xff, (char)0xff}

/* Two entry points that no CUDA driver has, for tests of functions that a newer driver adds. The first
 * returns the sum of its numbers in *sum; the second calls `function`. */
int cuSimgpuSum(double *sum, int a, long long b, int c, long long d, int e, long long f, int g,
                double h, double i);
int cuSimgpuCall(int (*function)(void *argument), void *argument);

#endif
