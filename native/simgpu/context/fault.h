/* Errors of GPUs, as contexts notice them. */
#ifndef SIMGPU_FAULT_H
#define SIMGPU_FAULT_H

#include "simgpu/context/context.h"

uint32_t sg_faults_so_far(void);
/* Breaks a context that one of the errors since it last looked is about. */
void sg_fault_look(CUcontext context);

#endif
