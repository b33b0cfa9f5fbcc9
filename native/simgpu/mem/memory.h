/* Device memory as cuMemAlloc gives it. */
#ifndef SIMGPU_MEMORY_H
#define SIMGPU_MEMORY_H

#include "simgpu/mem/address.h"

CUresult sg_memory_alloc(CUcontext context, CUdeviceptr *out, size_t bytes);
/* Frees the allocation that begins at the address. It waits for no work. */
CUresult sg_memory_free(CUdeviceptr address);
/* Frees everything that the context allocated. */
void sg_memory_free_all(CUcontext context);

#endif
