/* A request for a workload: its folder and spec, found by an id below the pool's folder. */
#ifndef MOIETY_SUPERVISOR_REQUEST_H
#define MOIETY_SUPERVISOR_REQUEST_H

#include <sys/types.h>

#include "supervisor/base/spec.h"

struct request {
    int folder; /* the workload's, opened */
    int spec_fd;
    uid_t server; /* the owner of all of it */
    struct spec spec;
};

int request_check_pool(int pool, uid_t *server);
int request_open_folder(int pool, uid_t server, const char *id);
int request_open(struct request *request, int pool, uid_t server, const char *id);
void request_close(struct request *request);

#endif
