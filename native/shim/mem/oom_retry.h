/* Room on demand: the driver needs device memory for itself, for code and contexts and graphs, and
 * knows nothing of memory that could leave.
 *
 * Around a call that came back with CUDA_ERROR_OUT_OF_MEMORY:
 *
 *     for (unsigned attempt = 0; result == CUDA_ERROR_OUT_OF_MEMORY && oom_retry(attempt); attempt++)
 *         again;
 *     if (attempt) oom_retry_done();
 */
#ifndef MOIETY_SHIM_MEM_OOM_RETRY_H
#define MOIETY_SHIM_MEM_OOM_RETRY_H

#include <stdbool.h>

#include "shim/mem/device.h"

#define OOM_ATTEMPTS 2

/* Asks the agent for room on the GPU of the current context, more with each attempt, and waits for
 * it. False when there is none to be had, or when waiting could do harm: inside the gate, where
 * nobody could be revoked for it. */
bool oom_retry(unsigned attempt);
/* The same for a context that does not exist yet. */
bool oom_retry_on(struct device *device, unsigned attempt);
/* What it was needed for is there now: the agent measures it. */
void oom_retry_done(void);

struct extent;
/* Backs an extent that stands in the table, inside the gate; what the driver still counts as used is
 * waited for a while. */
CUresult oom_retry_map(struct extent *extent);

#endif
