/* What the processes hold, which the rest of the state need not know. All is called with the lock held. */
#ifndef SIMGPU_PROCESS_TABLE_H
#define SIMGPU_PROCESS_TABLE_H

#include "simgpu/shared/state.h"

/* Its process is neither gone nor a zombie, and no other got its pid. */
int sg_process_lives(const struct sg_process *process);

/* Frees the slot and all that it holds. */
void sg_process_free(struct sg_process *process);

/* Links that a dying process left half changed are made anew from the entries. */
void sg_relink_granules(unsigned device);

#endif
