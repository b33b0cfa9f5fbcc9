/* Access of one GPU to the memory of another.
 *
 * The driver's switch for that does not reach memory of cuMemCreate, which is what ours is, so each chunk
 * is opened to the peers whenever it is mapped, for as long as somebody holds that open.
 */
#ifndef MOIETY_SHIM_MEM_PEER_ACCESS_H
#define MOIETY_SHIM_MEM_PEER_ACCESS_H

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* Who holds a device's memory open: a context of the peer for a context of the device, a pool of the device's, or
 * (both NULL) its graphs, for good. */
struct opener {
    const void *who, *of;
};

/* Lets a device use what is and will be allocated on another. The caller is inside the gate. */
CUresult peer_access_allow(struct device *owner, CUdevice peer, struct opener opener);
/* It does not hold it open any more; if nobody else does, the memory is closed to the peer. */
CUresult peer_access_refuse(struct device *owner, CUdevice peer, struct opener opener);
/* A context or a pool is gone, and what it held open or was opened by others with it. */
void peer_access_forget(const void *which);
/* Waits for the work of all that may use a device's memory, as freeing does. False: a capture is open. */
bool peer_access_await(const struct device *owner, CUresult *result);
void peer_access_after_fork(void);

#endif
