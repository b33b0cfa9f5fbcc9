/* What differs between the kinds of extents: how a chunk gets memory, and at which addresses. */
#ifndef MOIETY_SHIM_MEM_EXTENT_OPS_H
#define MOIETY_SHIM_MEM_EXTENT_OPS_H

#include <stdint.h>

#include "cuda/cuda_abi.h"

struct extent;

enum extent_kind {
    EXTENT_PLACED,  /* has addresses of its own, behind which its chunks come and go (extent.c) */
    EXTENT_MAPPED,  /* its chunks are mapped where the program maps them (vmm_handle.c) */
    EXTENT_MANAGED, /* the driver moves its pages when they are touched; no chunks (managed.c) */
};

/* Each function is called under extent_lock. */
struct extent_ops {
    enum extent_kind kind;
    /* The address by which a chunk can be copied; 0: it has none now. */
    CUdeviceptr (*address)(const struct extent *extent, uint32_t chunk);
    /* Gives a chunk that is present such an address. */
    CUresult (*ensure_mapped)(struct extent *extent, uint32_t chunk);
    /* Gives memory to up to `count` neighbouring chunks that have none, and shows them at every address
     * where they are seen. Returns how many are present now; fewer than `count`, with an error in
     * *result or because the kind maps one at a time. */
    uint32_t (*map)(struct extent *extent, uint32_t first, uint32_t count, CUresult *result);
    /* Takes the memory of a chunk away; nothing uses it any more. */
    void (*unmap)(struct extent *extent, uint32_t chunk);
    /* Gives back what belongs to an extent beside its chunks, which are gone. */
    void (*release)(struct extent *extent);
};

#endif
