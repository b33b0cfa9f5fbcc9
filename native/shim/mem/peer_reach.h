/* From which context memory can be reached. */
#ifndef MOIETY_SHIM_MEM_PEER_REACH_H
#define MOIETY_SHIM_MEM_PEER_REACH_H

#include "cuda/cuda_abi.h"
#include <stdbool.h>

/* The device of a context; CU_DEVICE_INVALID if the context is of no use. */
CUdevice peer_reach_device_of(CUcontext context);
/* The context of an allocation of ours that a device has no access to; NULL: the device has access, or the
 * memory is none of ours. Memory of pools and what the program mapped itself is closed without us, too. */
CUcontext peer_reach_context(CUdeviceptr address, CUdevice device);
/* True if it is memory of a GPU that the driver does not move. */
bool peer_reach_is_on_gpu(CUdeviceptr address);
/* The address of one side of a copy; 0: that side is no device memory. */
CUdeviceptr peer_reach_address(CUmemorytype type, CUdeviceptr address);
/* Contexts from which each side of a copy can be reached. False: both can be reached from the device. */
bool peer_reach_find_contexts(CUdevice device, CUdeviceptr dst, CUdeviceptr src, CUcontext *to,
                              CUcontext *from);

#endif
