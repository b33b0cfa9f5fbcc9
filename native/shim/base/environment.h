/* One variable of the environment that has another value for a moment. */
#ifndef MOIETY_SHIM_BASE_ENVIRONMENT_H
#define MOIETY_SHIM_BASE_ENVIRONMENT_H

#include <stdbool.h>

/* Another value for one variable, which the program may have set or not. */
struct environment_entry {
    char *ours;   /* NAME=value; it stays where it is for the life of the process */
    char *theirs; /* the program's own entry; NULL: it has none */
    char **
        placed; /* the environment that was made because it has none; kept: other threads may read it */
};

/* Puts entry->ours in the place of the program's own entry. Threads that read the environment meanwhile find the
 * one or the other. False: no memory. */
bool environment_replace(struct environment_entry *entry);
/* Puts the program's own entry back, unless the program changed it meanwhile. */
void environment_restore(struct environment_entry *entry);

#endif
