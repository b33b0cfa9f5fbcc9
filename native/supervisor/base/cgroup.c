#include "supervisor/base/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"

/* Names the cgroups of one start; there is none until they are made or opened. */
void cgroups_init(struct cgroups *groups, const int *parents, size_t count, const char *id,
                  uint64_t attempt)
{
    *groups = (struct cgroups){.count = count < CGROUPS_MAX ? count : CGROUPS_MAX, .whole = -1};
    (void)snprintf(groups->name, sizeof groups->name, "%s.%" PRIu64, id, attempt);
    for (size_t i = 0; i < groups->count; i++) {
        groups->parents[i] = parents[i];
        groups->folders[i] = -1;
    }
}

static bool has(int folder, const char *name) { return !faccessat(folder, name, F_OK, 0); }

static void open_one(struct cgroups *groups, size_t i)
{
    int folder =
        openat(groups->parents[i], groups->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    groups->folders[i] = folder;
    if (folder >= 0 && groups->whole < 0 && has(folder, "cgroup.kill") &&
        has(folder, "cgroup.freeze")) {
        groups->whole = folder;
    }
}

/* Makes the cgroups that can be made here. */
void cgroups_make(struct cgroups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        if (!mkdirat(groups->parents[i], groups->name, 0755) || errno == EEXIST) {
            open_one(groups, i);
        }
    }
}

/* Opens the cgroups that an earlier process of ours has made. */
void cgroups_open(struct cgroups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        open_one(groups, i);
    }
}

/* Writes a limit to the first cgroup that has such a file, by version 2 or by version 1. */
static int limit(struct cgroups *groups, enum cgroup_limit which, const char *const names[2],
                 uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    for (size_t i = 0; number && i < 2 * groups->count; i++) {
        int folder = groups->folders[i / 2];
        if (folder >= 0 && has(folder, names[i % 2])) {
            int failed = descriptor_write_text(folder, names[i % 2], text);
            groups->limits |= failed ? 0u : (unsigned)which;
            return failed;
        }
    }
    return 0;
}

/* Limits all processes of the workload together, where there is a cgroup for it; 0 is no limit. */
int cgroups_limit(struct cgroups *groups, uint64_t memory_bytes, uint64_t pids)
{
    static const char *const memory[] = {"memory.max", "memory.limit_in_bytes"};
    static const char *const processes[] = {"pids.max", "pids.max"};
    int failed = limit(groups, CGROUP_LIMIT_MEMORY, memory, memory_bytes);
    return failed ? failed : limit(groups, CGROUP_LIMIT_PIDS, processes, pids);
}

/* Puts a process into all of them; whether it is in the one that is killed as a whole. */
bool cgroups_add(const struct cgroups *groups, pid_t pid)
{
    char text[24];
    bool is_in = false;
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    for (size_t i = 0; i < groups->count; i++) {
        int folder = groups->folders[i];
        bool is_added = folder >= 0 && !descriptor_write_text(folder, "cgroup.procs", text);
        is_in = is_in || (is_added && folder == groups->whole);
    }
    return is_in;
}

bool cgroups_freeze(const struct cgroups *groups, bool is_frozen)
{
    return groups->whole >= 0 &&
           !descriptor_write_text(groups->whole, "cgroup.freeze", is_frozen ? "1" : "0");
}

bool cgroups_kill(const struct cgroups *groups)
{
    return groups->whole >= 0 && !descriptor_write_text(groups->whole, "cgroup.kill", "1");
}

/* Whether no process is in the one that is killed as a whole, or below it. */
bool cgroups_are_empty(const struct cgroups *groups)
{
    char text[256];
    return groups->whole < 0 ||
           descriptor_read_text(groups->whole, "cgroup.events", text, sizeof text) < 0 ||
           !strstr(text, "populated 1");
}

/* Chooses the processes in it among those of the table. */
void cgroups_choose(const struct cgroups *groups, struct process_table *table)
{
    int fd = groups->whole < 0 ? -1 : openat(groups->whole, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *lines = fd < 0 ? NULL : fdopen(fd, "r");
    int pid;
    while (lines && fscanf(lines, "%d", &pid) == 1) {
        struct process *row = process_table_find(table, pid);
        if (row) {
            row->is_chosen = true;
        }
    }
    if (lines) {
        fclose(lines);
    }
}

/* Removes them. One that the workload has made cgroups in stays. */
void cgroups_remove(struct cgroups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        if (groups->folders[i] >= 0) {
            close(groups->folders[i]);
            (void)unlinkat(groups->parents[i], groups->name, AT_REMOVEDIR);
            groups->folders[i] = -1;
        }
    }
    groups->whole = -1;
}
