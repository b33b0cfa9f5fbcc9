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

#endif
