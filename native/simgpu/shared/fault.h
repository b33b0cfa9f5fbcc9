/* GPU errors in the shared state, under the numbers of NVIDIA's driver (XID). */
#ifndef SIMGPU_SHARED_FAULT_H
#define SIMGPU_SHARED_FAULT_H

#include <stdint.h>

#define SG_FAULTS_KEPT 32u
#define SG_XID_OFF_BUS 79u

struct sg_faults {
    uint32_t count; /* errors so far; a waiting process sleeps on this futex */
    uint32_t lost;  /* a bit for each GPU that fell off the bus */
    struct sg_fault {
        uint32_t gpu, xid, pid; /* of the process that it hits; 0: all on this GPU */
    } log[SG_FAULTS_KEPT];
};

/* Wakes up the processes that wait for an error. */
void sg_fault_tell(struct sg_faults *faults);
/* Sleeps until there are more than `seen` errors, or until the timeout. */
void sg_fault_wait(struct sg_faults *faults, uint32_t seen, unsigned timeout_ms);

#endif
