/* Access by peers, as programs ask for it. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/peer_access.h"
#include "shim/pool/pool.h"

/* The device of another context, and that of the current one, which may use it or not. */
static CUresult find(CUcontext of, struct device **owner, CUdevice *peer, struct opener *opener)
{
    CUcontext own = NULL;
    CUresult result = DRIVER(cuCtxGetDevice)(peer);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuCtxGetCurrent)(&own);
    }
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuCtxPushCurrent_v2)(of);
    }
    if (result == CUDA_SUCCESS) {
        result = device_current(owner);
        device_pop();
    }
    *opener = (struct opener){own, of};
    return result;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_context, unsigned int flags)
{
    struct device *owner;
    CUdevice peer;
    struct opener opener;
    struct mw_slot *slot = gate_enter();
    CUresult result = DRIVER(cuCtxEnablePeerAccess)(peer_context, flags);
    if (result == CUDA_SUCCESS && client_is_active()) {
        result = find(peer_context, &owner, &peer, &opener);
        if (result == CUDA_SUCCESS) {
            result = peer_access_allow(owner, peer, opener);
        }
        if (result != CUDA_SUCCESS) {
            DRIVER(cuCtxDisablePeerAccess)(peer_context);
        }
    }
    gate_leave(slot);
    return result;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer_context)
{
    struct device *owner;
    CUdevice peer;
    struct opener opener;
    struct mw_slot *slot = gate_enter();
    CUresult result = DRIVER(cuCtxDisablePeerAccess)(peer_context);
    if (result == CUDA_SUCCESS && client_is_active() &&
        find(peer_context, &owner, &peer, &opener) == CUDA_SUCCESS) {
        result = peer_access_refuse(owner, peer, opener);
    }
    gate_leave(slot);
    return result;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    const struct pool *ours = client_is_active() ? pool_of(pool) : NULL;
    CUdevice ordinal = ours ? pool_ordinal(ours) : CU_DEVICE_INVALID;
    struct device *owner = ours ? device_look_up(ordinal) : NULL;
    struct mw_slot *slot = gate_enter();
    CUresult result = DRIVER(cuMemPoolSetAccess)(pool, map, count);
    for (size_t i = 0; owner && i < count && result == CUDA_SUCCESS; i++) {
        CUdevice peer = map[i].location.id;
        if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && peer != ordinal) {
            result = map[i].flags ? peer_access_allow(owner, peer, (struct opener){pool, NULL})
                                  : peer_access_refuse(owner, peer, (struct opener){pool, NULL});
        }
    }
    gate_leave(slot);
    return result;
}
