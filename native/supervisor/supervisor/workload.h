/* A running workload: its processes, its time, and how it ended. */
#ifndef MOIETY_SUPERVISOR_WORKLOAD_H
#define MOIETY_SUPERVISOR_WORKLOAD_H

#include <signal.h>

#include "supervisor/base/cgroup.h"
#include "supervisor/base/ending.h"
#include "supervisor/base/record.h"
#include "supervisor/base/spec.h"
#include "supervisor/supervisor/program.h"

struct workload {
    struct cgroups cgroups;
    struct program program;
    struct ending ending;
    enum end_reason reason;
    bool keeps_children, is_frozen, has_main_ended;
    bool was_rest_asked; /* what was left when the main process had ended was asked to end */
    int status;          /* of the main process, once it has ended */
    uint64_t grace_ms;
    uint64_t limit_ms; /* 0 is no limit */
    uint64_t ran_ms;   /* before running_since_ms */
    uint64_t running_since_ms;
    int warn_signal; /* sent before the time limit; 0: none */
    bool warns_first;
    uint64_t warn_before_ms;
    uint64_t warned_ms; /* the limit before which it was sent; a longer one has its own warning */
};

void workload_signals(sigset_t *set);
void workload_begin(struct workload *workload, const struct spec *spec);
void workload_wait(struct workload *workload);
void workload_wait_for_children(struct workload *workload);

#endif
