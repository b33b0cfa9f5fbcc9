/* Time on the links and on the compute units of a GPU, which all processes share. */
#ifndef SIMGPU_LINK_BANDWIDTH_H
#define SIMGPU_LINK_BANDWIDTH_H

#include <stdint.h>

enum sg_resource { SG_LINK_H2D, SG_LINK_D2H, SG_COMPUTE };

/* Books the resource for `duration_ns`, not before `ready_ns` and after all that is booked already. Returns
 * the end. Callers book short pieces (the two limits below), so that other streams get their turn. The
 * compute units are booked through time_slice.h. */
uint64_t sg_book(unsigned device, enum sg_resource resource, uint64_t ready_ns,
                 uint64_t duration_ns);

#define SG_COMPUTE_SLICE_NS (2 * 1000000ull)
#define SG_LINK_SLICE_BYTES (4ull << 20)

/* Counts time on the compute units for the device and the calling process; the caller holds the device's time. */
void sg_note_compute(unsigned device, uint64_t start_ns, uint64_t duration_ns);

/* Percent of the last second in which the resource was in use. */
unsigned sg_utilisation(unsigned device, enum sg_resource resource);
/* The part of it that one process caused. */
struct sg_process;
unsigned sg_process_utilisation(unsigned device, const struct sg_process *process);

#endif
