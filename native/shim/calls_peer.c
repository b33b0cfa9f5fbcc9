/* Access by peers, as programs ask for it. */
#include "shim/control.h"
#include "shim/gate.h"
#include "shim/peers.h"
#include "shim/pool.h"
#include "shim/real.h"

/* The current context's device may use what is on that of another context. */
static CUresult allow(CUcontext of)
{
    struct device *owner = NULL;
    CUdevice peer = -1;
    CUresult result = REAL(cuCtxGetDevice)(&peer);
    if (result == CUDA_SUCCESS) {
        result = REAL(cuCtxPushCurrent_v2)(of);
    }
    if (result == CUDA_SUCCESS) {
        result = device_current(&owner);
        device_pop();
    }
    return result == CUDA_SUCCESS ? peers_allow(owner, peer) : result;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_context, unsigned int flags)
{
    struct mw_slot *slot = gate_enter();
    CUresult result = REAL(cuCtxEnablePeerAccess)(peer_context, flags);
    if (result == CUDA_SUCCESS && control_is_active()) {
        result = allow(peer_context);
        if (result != CUDA_SUCCESS) {
            REAL(cuCtxDisablePeerAccess)(peer_context);
        }
    }
    gate_leave(slot);
    return result;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    const struct pool *ours = control_is_active() ? pool_of(pool) : NULL;
    CUdevice ordinal = ours ? pool_ordinal(ours) : CU_DEVICE_INVALID;
    struct device *owner = ours ? device_know(ordinal) : NULL;
    struct mw_slot *slot = gate_enter();
    CUresult result = REAL(cuMemPoolSetAccess)(pool, map, count);
    for (size_t i = 0; owner && i < count && result == CUDA_SUCCESS; i++) {
        bool allows = map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                      map[i].location.id != ordinal && map[i].flags != 0;
        result = allows ? peers_allow(owner, map[i].location.id) : CUDA_SUCCESS;
    }
    gate_leave(slot);
    return result;
}
