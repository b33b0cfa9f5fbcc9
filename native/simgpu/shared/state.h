/* The state of the GPUs: one file of shared memory that all processes with the same MOIETY_SIMGPU_STATE
 * map. It holds what the processes must agree on: who they are, how much each holds, and until when link
 * and compute are booked.
 *
 * The mutex is robust: it is freed when its holder dies.
 *
 * Functions return 0 or a negative errno.
 */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H

#include <stddef.h>

#include "simgpu/shared/state_layout.h"

/* Reads the environment, maps the state and takes a slot. On failure `why` gets a message for the user.
 * Returns 0, -ENODEV (MOIETY_SIMGPU is not set), -EINVAL (its value is wrong) or an errno of the system. */
int sg_state_open(enum sg_role role, char *why, size_t why_bytes);

/* Gives the slot back, and with it everything that the process held. */
void sg_state_close(void);

void sg_lock(void);
void sg_unlock(void);

/* The path of the directory that holds the state. */
void sg_state_directory(char *path, size_t bytes);

#endif
