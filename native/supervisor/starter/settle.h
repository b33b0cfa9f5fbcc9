/* Settling a workload whose supervisor has died: ending its processes, and writing that its exit status is lost. */
#ifndef MOIETY_SUPERVISOR_SETTLE_H
#define MOIETY_SUPERVISOR_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/base/cgroup.h"
#include "supervisor/base/ending.h"
#include "supervisor/base/record.h"
#include "supervisor/starter/supervisors.h"

struct settling {
    struct settling *next;
    char id[SPEC_ID_MAX + 1];
    int folder;
    int lock_fd; /* negative until it can be had */
    uint64_t grace_ms;
    struct cgroups cgroups;
    uint64_t attempt;
    bool was_ours; /* its processes have become our children */
    bool was_started;
    struct started_record started; /* zero if there is none, or if it is damaged */
    struct ending ending;
    uint64_t next_look_ms;
};

struct settlings {
    struct settling *first;
    const struct supervisors *supervisors;
};

int settle_begin(struct settlings *all, const struct start *start, const int *cgroups, size_t count,
                 bool was_ours);
uint64_t settle_next_ms(const struct settlings *all);
void settle_go_on(struct settlings *all);

#endif
