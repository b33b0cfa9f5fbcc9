/* The GPUs that the process sees: an ordinal counts those that CUDA_VISIBLE_DEVICES leaves, and the
 * shared state numbers all GPUs of the machine. */
#ifndef SIMGPU_DEVICES_H
#define SIMGPU_DEVICES_H

#include "cuda/cuda_calls.h"
#include "simgpu/shared/state.h"

#define SG_BLOCK_BYTES (2ull << 20) /* physical memory is divided into blocks of this size */

/* Reads CUDA_VISIBLE_DEVICES. The shared state is open. */
void sg_devices_choose(void);

unsigned sg_device_count(void);         /* of visible GPUs */
unsigned sg_device_of(CUdevice device); /* the shared state's number */
int sg_device_is(CUdevice device);
const struct sg_profile *sg_profile_of(unsigned gpu);
CUdevice sg_ordinal_of(unsigned gpu);

#endif
