/* The streams, events and the kernel that move memory of one device, in one of its contexts. */
#ifndef MOIETY_SHIM_SWAP_COPY_STREAMS_H
#define MOIETY_SHIM_SWAP_COPY_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/device.h"
#include "shim/swap/zero_scan.h"

#define COPY_DEPTH 8 /* the most chunks that are copied at a time in each direction */

struct copy_streams {
    CUcontext context;           /* all below was made in it, and goes with it */
    uint32_t contexts_destroyed; /* of the device, when they were made */
    CUstream out, in, hash;      /* never take part in captures */
    CUevent out_done[COPY_DEPTH], in_done[COPY_DEPTH], scanned;
    struct zero_scan zero_scan;
};

/* Makes a context of the device current and makes what is missing in it; device_pop follows. False: neither,
 * and *why is the driver's reason, CUDA_SUCCESS if there is no context. Under contexts_lock. */
bool copy_streams_enter(struct copy_streams *copy_streams, struct device *device, CUresult *why);

#endif
