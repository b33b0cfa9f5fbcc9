/* A workload's standard input, output and errors: files, opened as the user. */
#ifndef MOIETY_SUPERVISOR_OUTPUT_H
#define MOIETY_SUPERVISOR_OUTPUT_H

#include <sys/types.h>

#include "supervisor/base/spec.h"

/* The files that were not there before, so that a start that fails leaves none. */
struct outputs {
    struct made {
        const char *path; /* NULL: it was there */
        dev_t device;
        ino_t inode;
    } made[2];
};

int outputs_open(struct outputs *outputs, const struct spec *spec, const char **wrong);
void outputs_undo(const struct outputs *outputs);

#endif
