/* What a test may ask the stand-in driver about the calling process, and the errors that it may cause there.
 * A test gets the functions by name from the driver:
 *
 *   int (*simgpu_counters)(struct simgpu_counters *) = dlsym(driver, "simgpu_counters");
 */
#ifndef SIMGPU_INSPECT_H
#define SIMGPU_INSPECT_H

#include "simgpu/shared/work_counters.h"

/* Returns 0, or -1 before cuInit. */
int simgpu_counters(struct simgpu_counters *out);

/* The clock of the simulated machine, in ns: CLOCK_MONOTONIC, but for the times in which it stood still (`charged`). */
uint64_t simgpu_now_ns(void);

/* Makes copies of the calling process fail: in one direction (to the GPU, or from it to the host) the next
 * `after` copies succeed, and the `count` that follow return `result` and copy nothing. */
void simgpu_fail_copies(int to_gpu, uint64_t after, uint64_t count, int result);

/* Makes launches of the calling process fail: the next `after` launches of the kernel of this name succeed, and the
 * `count` that follow return `result` and run nothing. */
void simgpu_fail_launches(const char *kernel, uint64_t after, uint64_t count, int result);

/* Causes a GPU error under a number of the driver's log (XID). It ends the contexts of the process `pid` on
 * the GPU, or (0) of all processes. 79: the GPU has fallen off the bus. Returns -1 before cuInit, or if there
 * is no such GPU. */
int simgpu_fault(unsigned gpu, unsigned xid, unsigned pid);

#endif
