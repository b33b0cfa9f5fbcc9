/* Managed memory: granules of 2 MiB that move to the device when the GPU touches them. */
#ifndef SIMGPU_MANAGED_H
#define SIMGPU_MANAGED_H

#include "simgpu/mem/address.h"

CUresult sg_managed_alloc(CUcontext context, CUdeviceptr *out, size_t bytes);

/* Handles a fault. Returns 1 if it hit managed memory and the access can be repeated. */
int sg_managed_fault(uint64_t address, int by_gpu);

/* Called before GPU work: makes granules fault that the host has or that another process evicted. */
void sg_managed_arm(unsigned gpu);

/* Moves a whole range to a GPU, or to the host if `gpu` is -1. */
CUresult sg_managed_move(uint64_t address, uint64_t bytes, int gpu);
void sg_managed_free(struct sg_range *range);

#endif
