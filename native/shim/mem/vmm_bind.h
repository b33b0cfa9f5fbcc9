/* Memory of the program's own handles that is bound to an object of the driver's: a multicast object or a logical
 * endpoint. What is one piece for the program may be several chunks for the driver: each is bound by itself, and is
 * unbound as it was bound. */
#ifndef MOIETY_SHIM_MEM_VMM_BIND_H
#define MOIETY_SHIM_MEM_VMM_BIND_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct extent;

enum vmm_bind_call {
    VMM_BIND_MULTICAST, /* cuMulticastBindMem: the device is the memory's */
    VMM_BIND_MULTICAST_V2,
    VMM_BIND_ENDPOINT,
};

/* One call that binds memory. */
struct vmm_binding {
    enum vmm_bind_call call;
    CUdevice device;
    uint64_t object; /* the multicast object or the endpoint */
    uint64_t offset; /* in the object */
    uint64_t memory_offset;
    uint64_t bytes;
    unsigned long long flags;
    uint64_t chunk_bytes; /* set by vmm_bind */
    struct vmm_binding *next;
};

/* Binds a part of the memory of a handle; the driver's error codes; after an error nothing is bound. The caller is
 * inside the gate and holds the extent's moves, so all of it stays present. It does not hold extent_lock: the driver
 * may wait until other processes have joined a multicast object. */
CUresult vmm_bind(const struct extent *extent, const struct vmm_binding *binding);
/* The same for a handle of the driver's own, as of imported memory. */
CUresult vmm_bind_foreign(CUmemGenericAllocationHandle memory, const struct vmm_binding *binding);
/* With extent_lock: ends a binding that was made of several chunks; false: there is none at this place, and the driver is asked. */
bool vmm_unbind(bool endpoint, uint64_t object, CUdevice device, uint64_t offset, CUresult *result);
void vmm_bind_after_fork(void);

#endif
