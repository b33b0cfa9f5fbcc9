/* What is tried when the driver has run out of device memory: it needs memory for code, contexts and graphs,
 * and does not know that memory of other programs can leave.
 *
 * Around a call that returned CUDA_ERROR_OUT_OF_MEMORY:
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

/* Asks the agent for room on the GPU of the current context, more with each attempt, and waits for it. False:
 * there is none, or the caller is inside the gate, where no lease could be revoked for it. */
bool oom_retry(unsigned attempt);
/* The same for a context that does not exist yet. */
bool oom_retry_on(struct device *device, unsigned attempt);
/* The call has succeeded: the agent measures what the driver took. */
void oom_retry_done(void);

struct extent;
/* Gives memory to an extent of the table that the agent has admitted. The driver may still count memory of a
 * process that has just ended: then this waits for some seconds. The caller is outside the gate. */
CUresult oom_retry_map(struct extent *extent);

#endif
