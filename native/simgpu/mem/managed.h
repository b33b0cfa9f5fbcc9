/* Managed memory: granules of 2 MiB that come to the device when the GPU touches them. */
#ifndef SIMGPU_MANAGED_H
#define SIMGPU_MANAGED_H

#include "simgpu/mem/address.h"

CUresult sg_managed_alloc(CUcontext context, CUdeviceptr *out, size_t bytes);

/* An access faulted: 1 when it was to managed memory and can be made again now. */
int sg_managed_fault(uint64_t address, int by_gpu);

/* Before work of the GPU: what the host has, or what others moved out, must fault. */
void sg_managed_arm(unsigned gpu);

/* A whole range to the device or to the host. */
CUresult sg_managed_move(uint64_t address, uint64_t bytes, int gpu);
void sg_managed_free(struct sg_range *range);

#endif
