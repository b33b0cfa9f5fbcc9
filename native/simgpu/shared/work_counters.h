/* Counts of the work of one process, which tests read (api/inspect.h). */
#ifndef SIMGPU_WORK_COUNTERS_H
#define SIMGPU_WORK_COUNTERS_H

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

#endif
