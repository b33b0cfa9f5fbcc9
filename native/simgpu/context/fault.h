/* GPU errors (XID) as contexts notice them. */
#ifndef SIMGPU_FAULT_H
#define SIMGPU_FAULT_H

#include "simgpu/context/context.h"

uint32_t sg_fault_count(void);
/* Looks at the errors since the last call and sets the sticky error of a context that one of them hits. */
void sg_fault_check(CUcontext context);

#endif
