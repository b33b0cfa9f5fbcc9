#ifndef SIMGPU_IPC_H
#define SIMGPU_IPC_H

#include "cuda/cuda_calls.h"

/* What a context that is being destroyed has open of other processes is closed. */
void sg_ipc_close_all(CUcontext context);

#endif
