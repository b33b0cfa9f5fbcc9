/* Access of one GPU to the memory of another.
 *
 * The driver's switch for that does not reach memory of cuMemCreate, which the shim uses. So each
 * chunk is opened to the peers whenever it is mapped, as long as an opener holds the memory open.
 */
#ifndef MOIETY_SHIM_MEM_PEER_ACCESS_H
#define MOIETY_SHIM_MEM_PEER_ACCESS_H

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* What holds a device's memory open: a context of the peer for a context of the device, a pool of
 * the device's, or (both NULL) its graphs, for good. */
struct opener {
    const void *who, *of;
};

/* Lets a device use what is and will be allocated on another. The caller is inside the gate. */
CUresult peer_access_allow(struct device *owner, CUdevice peer, struct opener opener);
/* Removes an opener. If it was the last one, the memory is closed to the peer. */
CUresult peer_access_refuse(struct device *owner, CUdevice peer, struct opener opener);
/* A context or a pool is gone: removes it as an opener, and the openers of its memory. */
void peer_access_forget(const void *which);
/* Waits for the work of all that may use a device's memory, as freeing does. False: a capture is open. */
bool peer_access_await(const struct device *owner, CUresult *result);
void peer_access_after_fork(void);

#endif
