/* What a workload is: records `key=value`, each ended by NUL, in one file of memory.
 *
 *   attempt, id                      which start this is; id is of letters, digits and ._-
 *   uid, gid, groups                 numbers; groups with commas
 *   cwd, umask                       umask in octal; 022 if it is not there
 *   stdin, stdout, stderr            files; /dev/null, and for stderr what stdout is
 *   open_mode                        append (as it is without) or truncate, for stdout and stderr
 *   rlimit.NAME                      soft:hard, numbers or `unlimited`
 *   limit.memory_bytes, limit.pids   of all its processes, where there is a cgroup for it
 *   time_limit_s, grace_s            seconds; 0 is no limit
 *   warn_signal, warn_s, warn_first  a signal, seconds before the limit; 1: to the main process only
 *   keep_children                    1: what the main process leaves behind goes on
 *   allow_new_privileges             1: set-user-id programs work
 *   arg, env                         one each, in order */
#ifndef MOIETY_SUPERVISOR_SPEC_H
#define MOIETY_SUPERVISOR_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SPEC_BYTES_MAX (16u << 20)
#define SPEC_ID_MAX 64u
#define SPEC_GROUPS_MAX 1024u

struct spec {
    const char *records;
    size_t records_bytes;
    char id[SPEC_ID_MAX + 1];
    uint64_t attempt;
    uid_t uid;
    gid_t gid;
    mode_t umask;
    uint64_t time_limit_ms, grace_ms;
    uint64_t warn_signal, warn_ms; /* 0: none; how long before the limit */
    uint64_t memory_bytes, pids;   /* 0: no limit */
    bool keeps_children, allows_new_privileges, truncates_output, warns_first;
    size_t args, envs;
};

bool spec_is_id(const char *text);
int spec_map(int fd, struct spec *spec);
void spec_unmap(struct spec *spec);
int spec_read(struct spec *spec, const char **wrong);
const char *spec_value(const struct spec *spec, const char *key);
const char *spec_next(const struct spec *spec, const char *before);
char **spec_list(const struct spec *spec, const char *key, size_t count);
int spec_groups(const struct spec *spec, gid_t **groups);
int spec_number(const char *text, uint64_t *number);

#endif
