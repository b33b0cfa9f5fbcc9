#include "simgpu/shared/fault.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sg_fault_tell(struct sg_faults *faults)
{
    __atomic_add_fetch(&faults->count, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &faults->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sg_fault_wait(struct sg_faults *faults, uint32_t seen, unsigned timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000L};
    syscall(SYS_futex, &faults->count, FUTEX_WAIT, seen, &limit, NULL, 0);
}
