/* The time of a GPU's compute units, divided between processes in slices as a card does: round robin, with a
 * cost for each switch. Kernels of one process run one after the other, first come, first served. Under
 * MPS (profile `mps`) those of all processes do, and switches cost nothing.
 */
#ifndef SIMGPU_TIME_SLICE_H
#define SIMGPU_TIME_SLICE_H

#include <stdint.h>

/* Takes the compute units for `duration_ns` in all, not before `ready_ns`: over several slices if need be.
 * Returns the end of the last piece, shortly before it at the earliest. Takes none of the state's locks from
 * the caller: it must hold none. */
uint64_t sg_slice_run(unsigned device, uint64_t ready_ns, uint64_t duration_ns);

/* Between these two calls the calling thread has work for the compute units, or looks for it. While no
 * thread of a process does, the process takes no slice, and what is left of its current one goes to others. */
void sg_slice_enter(unsigned device);
void sg_slice_leave(unsigned device);

#endif
