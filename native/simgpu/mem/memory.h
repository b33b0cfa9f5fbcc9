/* Device memory as cuMemAlloc gives it. */
#ifndef SIMGPU_MEMORY_H
#define SIMGPU_MEMORY_H

#include "simgpu/mem/address.h"

CUresult sg_memory_alloc(CUcontext context, CUdeviceptr *out, size_t bytes);
/* The allocation that begins there. Waits for nothing. */
CUresult sg_memory_free(CUdeviceptr address);
/* Everything that the context allocated. */
void sg_memory_free_all(CUcontext context);

#endif
