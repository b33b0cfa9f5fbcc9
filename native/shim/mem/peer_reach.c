#include "shim/mem/peer_reach.h"

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"

CUdevice peer_reach_device_of(CUcontext context)
{
    CUdevice device = CU_DEVICE_INVALID;
    if (DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS) {
        DRIVER(cuCtxGetDevice)(&device);
        device_pop();
    }
    return device;
}

/* The context of an allocation of ours that a device has no access to; NULL: the device has access,
 * or the memory is none of ours. Memory of pools and what the program mapped itself is closed
 * without us, too. */
CUcontext peer_reach_context(CUdeviceptr address, CUdevice device)
{
    LOCK_SCOPE(&extent_lock);
    const struct extent *extent = address ? extent_table_find(address) : NULL;
    if (!extent || extent->ops->kind != EXTENT_PLACED || extent->use == EXTENT_OF_POOL) {
        return NULL;
    }
    struct device *owner = extent->device;
    if (owner->ordinal == device || owner->peers >> device & 1) {
        return NULL;
    }
    owner->crossed |= 1ull << device; /* freeing its memory waits for that device, too */
    return extent->context;
}

bool peer_reach_is_on_gpu(CUdeviceptr address)
{
    unsigned int type = 0;
    unsigned int managed = 0;
    return DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE &&
           (DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) !=
                CUDA_SUCCESS ||
            !managed);
}

CUdeviceptr peer_reach_address(CUmemorytype type, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? address : 0;
}

/* Contexts from which each side can be reached. False: both can be from where the copy is done anyway. */
bool peer_reach_find_contexts(CUdevice device, CUdeviceptr dst, CUdeviceptr src, CUcontext *to,
                              CUcontext *from)
{
    *to = peer_reach_context(dst, device);
    *from = peer_reach_context(src, device);
    return *to || *from;
}
