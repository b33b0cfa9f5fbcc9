/* The process of a workload, from fork to exec: it becomes the user's, and the user's program. */
#ifndef MOIETY_SUPERVISOR_PROGRAM_H
#define MOIETY_SUPERVISOR_PROGRAM_H

#include <sys/types.h>

#include "supervisor/base/record.h"
#include "supervisor/base/spec.h"

struct program {
    pid_t pid;
    int go_fd;    /* a byte lets it go on; its end makes it exit */
    int error_fd; /* has a text if the program could not be executed */
};

/* What a process says that could not execute the program. */
struct start_failure {
    int error;
    char text[RECORD_TEXT_MAX];
};

int program_fork(struct program *program, const struct spec *spec, const char *oom_score_adj);
bool program_read_failure(const struct program *program, struct start_failure *failure);

#endif
