/* Which processes live. A slot's owner is known by its pid and start time, or in another pid namespace by a
 * lock of a file. */
#ifndef SIMGPU_PROCESS_LIFE_H
#define SIMGPU_PROCESS_LIFE_H

#include "simgpu/shared/state_layout.h"

/* Opens the file of locks, once; `file` is the caller's until then. */
int sg_life_is_open(void);
void sg_life_open(int file);

/* The calling process is this one from now on. */
void sg_process_born(struct sg_process *process);
/* Whether the slot is the calling process's, or was before an exec. */
int sg_process_is_own(const struct sg_process *process);

/* Its process is neither gone nor a zombie, and no other got its pid. */
int sg_process_lives(const struct sg_process *process);

/* What the calling process calls another one: in a container, it counts otherwise. 0: it cannot see it. */
uint32_t sg_process_pid(const struct sg_process *process);

#endif
