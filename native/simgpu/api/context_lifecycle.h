/* Creating and destroying contexts. */
#ifndef SIMGPU_CONTEXT_LIFECYCLE_H
#define SIMGPU_CONTEXT_LIFECYCLE_H

#include "simgpu/context/context.h"

/* Guards the creation and destruction of contexts. */
void sg_contexts_lock(void);
void sg_contexts_unlock(void);
CUresult sg_context_create(CUcontext *out, unsigned flags, unsigned gpu, unsigned version);
void sg_context_destroy(CUcontext context);

#endif
