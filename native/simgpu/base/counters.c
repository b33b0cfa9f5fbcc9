#include "simgpu/base/counters.h"

#include "simgpu/shared/clock.h"
#include "simgpu/shared/state_layout.h"

void sg_count(enum sg_counted what, uint64_t bytes)
{
    struct sg_process *process = sg_process;
    if (!process) {
        return;
    }
    struct simgpu_counters *counters = &process->counters;
    uint64_t *count = what == SG_LAUNCHED         ? &counters->launches
                      : what == SG_GRAPH_LAUNCHED ? &counters->graph_launches
                      : what == SG_COPIED         ? &counters->copies
                      : what == SG_MEMSET_DONE    ? &counters->memsets
                                                  : &counters->host_functions;
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    if (what == SG_COPIED) {
        __atomic_add_fetch(&counters->copied_bytes, bytes, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&counters->last_ns, sg_now_ns(), __ATOMIC_RELAXED);
}
