/* The supervisors that this starter has started and that have not ended. */
#ifndef MOIETY_SUPERVISOR_SUPERVISORS_H
#define MOIETY_SUPERVISOR_SUPERVISORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/base/spec.h"

/* What is known of a start. */
struct start {
    pid_t pid;    /* of the supervisor, also while it is held */
    int word_fd;  /* to a supervisor that is held; else negative */
    bool is_held; /* it has not been told to begin: nothing was started */
    char id[SPEC_ID_MAX + 1];
    uint64_t attempt, grace_ms;
    int folder; /* the workload's, opened */
};

struct supervisors {
    struct start *rows;
    size_t count, capacity;
};

int supervisors_add(struct supervisors *supervisors, const struct start *start);
bool supervisors_take(struct supervisors *supervisors, pid_t pid, struct start *start);
struct start *supervisors_held(const struct supervisors *supervisors, const char *id);
void supervisors_give_up(const struct supervisors *supervisors);
bool supervisors_have(const struct supervisors *supervisors, pid_t pid);

#endif
