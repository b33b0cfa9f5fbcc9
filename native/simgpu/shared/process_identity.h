/* Which processes live. The owner of a slot is identified by pid and start time, or in another pid
 * namespace by a file lock. */
#ifndef SIMGPU_PROCESS_IDENTITY_H
#define SIMGPU_PROCESS_IDENTITY_H

#include "simgpu/shared/state_layout.h"

/* The file of locks is opened once and never closed. */
int sg_slot_locks_are_open(void);
void sg_slot_locks_open(int file);

/* Makes the calling process the owner of a slot. */
void sg_process_register(struct sg_process *process);
/* Returns whether the slot belongs to the calling process, or did before an exec. */
int sg_process_is_own(const struct sg_process *process);

/* Returns whether the owner lives: it is no zombie, and no other process got its pid. */
int sg_process_lives(const struct sg_process *process);

/* The pid of a process in the caller's pid namespace. Returns 0 if it is not visible there. */
uint32_t sg_process_pid(const struct sg_process *process);

#endif
