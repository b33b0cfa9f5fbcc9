/* The cgroups of a workload, below the folders that are passed for it: one of version 2 to kill and freeze its
 * processes as a whole, and whatever there is for its limits. */
#ifndef MOIETY_SUPERVISOR_CGROUP_H
#define MOIETY_SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/base/process_table.h"
#include "supervisor/base/spec.h"

#define CGROUPS_MAX 8u
#define CGROUP_NAME_BYTES (SPEC_ID_MAX + 24u)

enum cgroup_limit { CGROUP_LIMIT_MEMORY = 1, CGROUP_LIMIT_PIDS = 2, CGROUP_LIMITS_ALL = 3 };

struct cgroups {
    char name[CGROUP_NAME_BYTES];
    size_t count;
    int parents[CGROUPS_MAX];
    int folders[CGROUPS_MAX]; /* negative where none could be made */
    unsigned limits;          /* that are set: enum cgroup_limit */
    int whole;                /* the one that can be killed and frozen as a whole; else -1 */
};

void cgroups_init(struct cgroups *groups, const int *parents, size_t count, const char *id,
                  uint64_t attempt);
void cgroups_make(struct cgroups *groups);
void cgroups_open(struct cgroups *groups);
int cgroups_limit(struct cgroups *groups, uint64_t memory_bytes, uint64_t pids);
bool cgroups_add(const struct cgroups *groups, pid_t pid);
bool cgroups_freeze(const struct cgroups *groups, bool is_frozen);
bool cgroups_kill(const struct cgroups *groups);
bool cgroups_are_empty(const struct cgroups *groups);
void cgroups_choose(const struct cgroups *groups, struct process_table *table);
void cgroups_remove(struct cgroups *groups);

#endif
