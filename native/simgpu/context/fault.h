/* GPU errors (XID) as contexts notice them. */
#ifndef SIMGPU_FAULT_H
#define SIMGPU_FAULT_H

#include "simgpu/context/context.h"

/* Causes an error (XID) of one process on a GPU, or (0) of all. Returns -1 if there is no such GPU. */
int sg_fault_inject(unsigned gpu, unsigned xid, unsigned pid);

uint32_t sg_fault_count(void);
/* Looks at the errors since the last call and sets the sticky error of a context that one of them hits. */
void sg_fault_check(CUcontext context);

#endif
