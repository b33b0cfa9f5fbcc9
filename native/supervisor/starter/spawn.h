/* Starting a supervisor for a request, at once or in two steps: its process is there first, and begins when it is
 * told. What is written into the specification meanwhile may name that process. */
#ifndef MOIETY_SUPERVISOR_SPAWN_H
#define MOIETY_SUPERVISOR_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "supervisor/base/cgroup.h"
#include "supervisor/starter/request.h"

#define SPAWN_PATH_BYTES 4096u

/* What all supervisors of a starter get. */
struct spawn {
    char path[SPAWN_PATH_BYTES]; /* of the supervisor */
    char oom_score_adj[16];      /* what the starter began with */
    int cgroups[CGROUPS_MAX];
    size_t cgroup_count;
};

int spawn_find_supervisor(char path[SPAWN_PATH_BYTES]);
pid_t spawn_supervisor(const struct spawn *spawn, const struct request *request);
pid_t spawn_held(const struct spawn *spawn, int folder, uid_t server, int *word_fd);
int spawn_tell(int word_fd, int spec_fd);

#endif
