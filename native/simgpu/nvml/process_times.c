#include "simgpu/nvml/process_times.h"

#include "simgpu/nvml/system.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/state.h"

EXPORT int simgpu_process_times(unsigned gpu, struct simgpu_process_time *times, unsigned room,
                                uint64_t *now_ns, uint64_t *switches)
{
    unsigned count = 0;
    if (!sg_state || gpu >= sg_state->machine.count) {
        return -1;
    }
    sg_lock();
    sg_reap();
    *now_ns = sg_now_ns();
    *switches = sg_state->device[gpu].turns.switches;
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        const struct sg_process *process = &sg_state->process[i];
        uint32_t pid = process->pid && process->role == SG_DRIVER ? sg_process_pid(process) : 0;
        if (pid && count < room) {
            times[count] = (struct simgpu_process_time){pid, process->on[gpu].busy.total_ns};
        }
        count += pid != 0;
    }
    sg_unlock();
    return (int)count;
}
