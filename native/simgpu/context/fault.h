/* Errors of GPUs, as contexts notice them. */
#ifndef SIMGPU_FAULT_H
#define SIMGPU_FAULT_H

#include "simgpu/context/context.h"

uint32_t sg_fault_count(void);
/* Breaks a context that one of the errors since it last looked is about. */
void sg_fault_check(CUcontext context);

#endif
