/* Starting a supervisor for a request. */
#ifndef MOIETY_SUPERVISOR_SPAWN_H
#define MOIETY_SUPERVISOR_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "supervisor/starter/request.h"

#define SPAWN_PATH_BYTES 4096u

int spawn_find_supervisor(char path[SPAWN_PATH_BYTES]);
pid_t spawn_supervisor(const struct request *request, const char *path, const int *cgroups,
                       size_t count, const char *oom_score_adj);

#endif
