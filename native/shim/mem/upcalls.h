/* What memory needs of the layers above it. The control layer fills in the table once, before the first
 * allocation; until then nothing above takes part. */
#ifndef MOIETY_SHIM_MEM_UPCALLS_H
#define MOIETY_SHIM_MEM_UPCALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct address_info;
struct device;
struct extent;

struct mem_upcalls {
    /* swap: the host copy of a chunk is not needed any more. Under extent_lock. */
    void (*host_free)(void *at, uint64_t bytes);
    /* pool: gives free memory of the device back to the driver. True if there was any. No lock is held. */
    bool (*reclaim)(const struct device *device);
    /* pool: frees and describes what lies in an extent of a pool. No lock is held. */
    bool (*pool_free)(CUdeviceptr pointer, CUresult *result);
    bool (*pool_info)(CUdeviceptr pointer, struct address_info *info);
    /* ipc: describes memory that another process made. No lock is held. */
    bool (*import_info)(CUdeviceptr pointer, struct address_info *info);
    /* ipc: the allocation at an address is freed; its extent may stay. Under extent_lock. */
    void (*freed)(CUdeviceptr base);
    /* ipc: an extent goes. What `ending` returned (NULL: it was never exported) is given to `ended`
     * when it is gone. Under extent_lock. */
    void *(*ending)(const struct extent *extent);
    void (*ended)(void *exports);
};

extern struct mem_upcalls mem_upcalls;

#endif
