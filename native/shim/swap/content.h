/* What the bytes of this process on a device are: the agent asks, before any of them leave, where programs may ask
 * for more than there is. */
#ifndef MOIETY_SHIM_SWAP_CONTENT_H
#define MOIETY_SHIM_SWAP_CONTENT_H

#include <stdint.h>

#include "shim/mem/device.h"

struct content {
    uint64_t
        zero_bytes; /* on the GPU, found by a scan since the last lease; they are evicted first */
    uint64_t host_bytes; /* in host copies */
};

/* Under extent_lock. */
struct content content_count(const struct device *device);

#endif
