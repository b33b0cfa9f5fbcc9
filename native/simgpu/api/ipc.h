#ifndef SIMGPU_IPC_H
#define SIMGPU_IPC_H

#include "cuda/cuda_calls.h"

/* Closes every IPC mapping of a context that is being destroyed. */
void sg_ipc_close_all(CUcontext context);

#endif
