/* What moving memory of one device needs in one of its contexts: streams, events, the kernel. */
#ifndef MOIETY_SHIM_LANE_H
#define MOIETY_SHIM_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/devices.h"
#include "shim/zeros.h"

#define LANE_DEPTH 8 /* chunks on their way in each direction, at most */

struct lane {
    CUcontext context;   /* all of it lives there, and is gone with it */
    uint32_t departures; /* of the device, when it was made */
    CUstream out, in;    /* never take part in captures */
    CUevent out_done[LANE_DEPTH], in_done[LANE_DEPTH], looked;
    struct zeros zeros;
};

/* Makes a context of the device current and sees that the lane is there; device_pop afterwards.
 * False: neither, with the driver's reason, if there is a context at all. Under contexts_lock. */
bool lane_enter(struct lane *lane, struct device *device, CUresult *why);

#endif
