/* The control thread: carries out what the agent says, for this whole process. */
#ifndef MOIETY_SHIM_CONTROL_CONTROL_THREAD_H
#define MOIETY_SHIM_CONTROL_CONTROL_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

/* After the driver's own cuInit succeeded: connects to the agent named by MOIETY_SOCKET and starts
 * the thread. Without that variable the shim stays out of everything. An error is what cuInit
 * returns: a program never runs half-shared. Called again, it does nothing. */
CUresult control_begin(void);
/* Whether an agent decides about this process. */
bool control_is_active(void);
/* Memory of this process was exported, or another's imported (MW_SHARED_*): those who share memory may
 * wait for each other's work. */
void control_share(uint32_t flags);
/* From now on nothing of this process can leave the GPU; `call` is the entry point that did it. */
void control_pin(const char *call);
/* The same for something that the shim does not know; counted. */
void control_unknown(const char *call);

#endif
