#include "shim/lane.h"

#include <string.h>

#include "shim/real.h"

static bool make_event(CUevent *event)
{
    return REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

static bool make(struct lane *lane)
{
    bool made = REAL(cuStreamCreate)(&lane->out, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                REAL(cuStreamCreate)(&lane->in, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                make_event(&lane->looked);
    for (int i = 0; made && i < LANE_DEPTH; i++) {
        made = make_event(&lane->out_done[i]) && make_event(&lane->in_done[i]);
    }
    return made;
}

static void destroy_events(CUevent *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i]) {
            REAL(cuEventDestroy_v2)(events[i]);
        }
    }
}

/* Of one that was not wholly made: the next try makes all of it. */
static void take_down(struct lane *lane)
{
    CUstream streams[] = {lane->out, lane->in};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (streams[i]) {
            REAL(cuStreamDestroy_v2)(streams[i]);
        }
    }
    destroy_events(&lane->looked, 1);
    destroy_events(lane->out_done, LANE_DEPTH);
    destroy_events(lane->in_done, LANE_DEPTH);
    memset(lane, 0, sizeof(*lane));
}

bool lane_enter(struct lane *lane, struct device *device)
{
    CUcontext context = NULL;
    if (!device_push(device)) {
        return false;
    }
    REAL(cuCtxGetCurrent)(&context);
    if (lane->context == context && lane->departures == device->departures) {
        return true;
    }
    memset(lane, 0, sizeof(*lane)); /* what it had went with the context it had it in */
    if (!make(lane)) {
        take_down(lane);
        device_pop();
        return false;
    }
    lane->context = context;
    lane->departures = device->departures;
    return true;
}
