/* Room on demand: the driver needs device memory for itself, for code and contexts and graphs, and
 * knows nothing of memory that could leave.
 *
 * Around a call that came back with CUDA_ERROR_OUT_OF_MEMORY:
 *
 *     for (unsigned attempt = 0; result == CUDA_ERROR_OUT_OF_MEMORY && room_made(attempt); attempt++)
 *         again;
 *     if (attempt) room_used();
 */
#ifndef MOIETY_SHIM_ROOM_H
#define MOIETY_SHIM_ROOM_H

#include <stdbool.h>

#include "shim/devices.h"

#define ROOM_ATTEMPTS 2

/* Asks the agent for room on the GPU of the current context, more with each attempt, and waits for
 * it. False when there is none to be had, or when waiting could do harm: inside the gate, where
 * nobody could be revoked for it. */
bool room_made(unsigned attempt);
/* The same for a context that does not exist yet. */
bool room_made_on(struct device *device, unsigned attempt);
/* What it was needed for is there now: the agent measures it. */
void room_used(void);

#endif
