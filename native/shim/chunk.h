/* One piece of device memory behind an address that stays. */
#ifndef MOIETY_SHIM_CHUNK_H
#define MOIETY_SHIM_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct chunk {
    CUmemGenericAllocationHandle handle;
    uint64_t bytes;
    void *host; /* its bytes while it is out; NULL: new or present */
    bool present;
};

/* Backs the chunk with memory of the device: create, map, allow. Its content is undefined. */
CUresult chunk_map(struct chunk *chunk, CUdeviceptr at, CUdevice device);
/* Takes the memory away again; nothing may use it any more. */
void chunk_unmap(struct chunk *chunk, CUdeviceptr at);

#endif
