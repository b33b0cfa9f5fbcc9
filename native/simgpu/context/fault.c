/* GPU errors that a test causes: errors that end contexts, and a GPU that is lost. */
#include "simgpu/context/fault.h"

#include <unistd.h>

#include "simgpu/shared/fault.h"
#include "simgpu/shared/state.h"

/* The result that a program gets for an XID of the driver's log. */
static CUresult result_of(uint32_t xid)
{
    switch (xid) {
    case 31:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case 48:
    case 94:
    case 95:
        return CUDA_ERROR_ECC_UNCORRECTABLE;
    case 43:
    case 45:
        return CUDA_ERROR_LAUNCH_FAILED;
    default:
        return CUDA_ERROR_UNKNOWN;
    }
}

int sg_fault_inject(unsigned gpu, unsigned xid, unsigned pid)
{
    if (!sg_state || gpu >= sg_state->machine.count) {
        return -1;
    }
    sg_lock();
    struct sg_faults *faults = &sg_state->faults;
    faults->log[faults->count % SG_FAULTS_KEPT] = (struct sg_fault){gpu, xid, pid};
    if (xid == SG_XID_OFF_BUS) {
        faults->lost |= 1u << gpu;
    }
    sg_fault_tell(faults);
    sg_unlock();
    return 0;
}

uint32_t sg_fault_count(void) { return __atomic_load_n(&sg_state->faults.count, __ATOMIC_ACQUIRE); }

/* Called at each entry point. Without errors it costs one load. */
void sg_fault_check(CUcontext context)
{
    uint32_t now = sg_fault_count();
    if (now == context->faults_seen) {
        return;
    }
    uint32_t first =
        now - context->faults_seen > SG_FAULTS_KEPT ? now - SG_FAULTS_KEPT : context->faults_seen;
    for (uint32_t i = first; i != now; i++) {
        const struct sg_fault *fault = &sg_state->faults.log[i % SG_FAULTS_KEPT];
        if (fault->gpu == context->gpu && (!fault->pid || fault->pid == (uint32_t)getpid())) {
            sg_context_set_error(context, result_of(fault->xid));
        }
    }
    context->faults_seen = now;
}
