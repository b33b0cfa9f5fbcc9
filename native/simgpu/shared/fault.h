/* Errors of GPUs, with the numbers that NVIDIA's driver gives them (XID), in the shared state. */
#ifndef SIMGPU_SHARED_FAULT_H
#define SIMGPU_SHARED_FAULT_H

#include <stdint.h>

#define SG_FAULTS_KEPT 32u
#define SG_XID_OFF_BUS 79u

struct sg_faults {
    uint32_t count; /* so far; whoever waits for one sleeps on it */
    uint32_t lost;  /* a bit for each GPU that fell off the bus */
    struct sg_fault {
        uint32_t gpu, xid, pid; /* of the process whose it is, or 0: of all there */
    } log[SG_FAULTS_KEPT];
};

/* The log has one more. */
void sg_fault_tell(struct sg_faults *faults);
/* Sleeps until there are more than `seen`, or for so long. */
void sg_fault_wait(struct sg_faults *faults, uint32_t seen, unsigned timeout_ms);

#endif
