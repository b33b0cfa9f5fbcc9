/* Access of one GPU to the memory of another.
 *
 * The driver's switch for that does not reach memory of cuMemCreate, which is what ours is, so each chunk
 * is opened to the peers whenever it is mapped. Once opened, a device's memory stays so: nobody can tell.
 */
#ifndef MOIETY_SHIM_PEERS_H
#define MOIETY_SHIM_PEERS_H

#include "cuda/cuda_abi.h"
#include "shim/devices.h"

/* Lets a device use what is and will be allocated on another. The caller is inside the gate. */
CUresult peers_allow(struct device *owner, CUdevice peer);
/* Waits for the work of all that may use a device's memory, as freeing does. False: a capture is open. */
bool peers_await(const struct device *owner, CUresult *result);

#endif
