/* What a test may ask libnvidia-ml about the processes on a GPU, exactly. It gets the function by its name. */
#ifndef SIMGPU_PROCESS_TIMES_H
#define SIMGPU_PROCESS_TIMES_H

#include <stdint.h>

struct simgpu_process_time {
    uint64_t pid; /* as the caller sees it */
    uint64_t
        busy_ns; /* time on the compute units since the process opened the driver, switches not counted */
};

/* Fills in up to `room` processes with the driver, their clock (CLOCK_MONOTONIC, in nanoseconds), and how often the GPU
 * has changed from one process to another. Returns how
 * many there are, or -1 before nvmlInit or if there is no such GPU. */
int simgpu_process_times(unsigned gpu, struct simgpu_process_time *times, unsigned room,
                         uint64_t *now_ns, uint64_t *switches);

#endif
