/* The GPUs themselves: one file of shared memory that all processes with the same
 * MOIETY_SIMGPU_STATE map. Whatever several processes must agree on lies here: who they
 * are, how much each holds, until when link and compute are taken.
 *
 * The mutex is a robust one: it passes on when its holder dies.
 *
 * Functions return 0 or a negative errno.
 */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H

#include <stddef.h>

#include "simgpu/shared/state_layout.h"

/* Reads the environment, maps the state and takes a slot. `why` gets a sentence when it fails:
 * -ENODEV: no GPUs were asked for; -EINVAL: the description is wrong; others: the system's. */
int sg_state_open(enum sg_role role, char *why, size_t why_bytes);

/* Gives the slot back, and with it everything that the process held. */
void sg_state_close(void);

void sg_lock(void);
void sg_unlock(void);

/* The path of the directory that holds the state. */
void sg_state_directory(char *path, size_t bytes);

#endif
