#include "simgpu/api/inspect.h"

#include "simgpu/base/entry.h"
#include "simgpu/context/fault.h"
#include "simgpu/exec/copy_fail.h"
#include "simgpu/exec/launch_fail.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/state.h"

CUDA_EXPORT int simgpu_counters(struct simgpu_counters *out)
{
    if (sg_enter() || !sg_process) {
        return -1;
    }
    *out = sg_process->counters;
    return 0;
}

CUDA_EXPORT uint64_t simgpu_now_ns(void) { return sg_now_ns(); }

CUDA_EXPORT void simgpu_fail_copies(int to_gpu, uint64_t after, uint64_t count, int result)
{
    sg_copy_fail_next(to_gpu ? SG_H2D : SG_D2H, after, count, (CUresult)result);
}

CUDA_EXPORT void simgpu_fail_launches(const char *kernel, uint64_t after, uint64_t count,
                                      int result)
{
    sg_launch_fail_next(kernel, after, count, (CUresult)result);
}

CUDA_EXPORT int simgpu_fault(unsigned gpu, unsigned xid, unsigned pid)
{
    return sg_fault_inject(gpu, xid, pid);
}
