/* What the driver reads in CUDA_VISIBLE_DEVICES: the program's choice among its workload's GPUs. */
#ifndef MOIETY_SHIM_HOOKS_VISIBLE_H
#define MOIETY_SHIM_HOOKS_VISIBLE_H

#include "cuda/cuda_abi.h"

/* Starts the driver, which reads the variable when it is started first. Before and after, the program and its
 * children find their own text there. */
CUresult visible_init(unsigned int flags);

#endif
