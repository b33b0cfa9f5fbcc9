#include "shim/lane.h"

#include <string.h>

#include "shim/real.h"

static CUresult make_event(CUevent *event)
{
    return REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING);
}

static CUresult make(struct lane *lane)
{
    CUresult result = REAL(cuStreamCreate)(&lane->out, CU_STREAM_NON_BLOCKING);
    result = result ? result : REAL(cuStreamCreate)(&lane->in, CU_STREAM_NON_BLOCKING);
    result = result ? result : make_event(&lane->looked);
    for (int i = 0; !result && i < LANE_DEPTH; i++) {
        result = make_event(&lane->out_done[i]);
        result = result ? result : make_event(&lane->in_done[i]);
    }
    return result;
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

bool lane_enter(struct lane *lane, struct device *device, CUresult *why)
{
    CUcontext context = NULL;
    *why = CUDA_SUCCESS;
    if (!device_push(device)) {
        return false;
    }
    REAL(cuCtxGetCurrent)(&context);
    if (lane->context == context && lane->departures == device->departures) {
        return true;
    }
    memset(lane, 0, sizeof(*lane)); /* what it had went with the context it had it in */
    *why = make(lane);
    if (*why != CUDA_SUCCESS) {
        take_down(lane);
        device_pop();
        return false;
    }
    lane->context = context;
    lane->departures = device->departures;
    return true;
}
