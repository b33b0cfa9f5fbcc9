/* What moving memory of one device needs in one of its contexts: streams, events, the kernel. */
#ifndef MOIETY_SHIM_SWAP_COPY_STREAMS_H
#define MOIETY_SHIM_SWAP_COPY_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/device.h"
#include "shim/swap/zero_scan.h"

#define COPY_DEPTH 8 /* chunks on their way in each direction, at most */

struct copy_streams {
    CUcontext context;           /* all of it lives there, and is gone with it */
    uint32_t contexts_destroyed; /* of the device, when it was made */
    CUstream out, in;            /* never take part in captures */
    CUevent out_done[COPY_DEPTH], in_done[COPY_DEPTH], scanned;
    struct zero_scan zero_scan;
};

/* Makes a context of the device current and sees that the lane is there; device_pop afterwards.
 * False: neither, with the driver's reason, if there is a context at all. Under contexts_lock. */
bool copy_streams_enter(struct copy_streams *copy_streams, struct device *device, CUresult *why);

#endif
