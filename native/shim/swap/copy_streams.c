#include "shim/swap/copy_streams.h"

#include <string.h>

#include "shim/base/driver.h"
#include "shim/mem/device_contexts.h"

static CUresult make_event(CUevent *event)
{
    return DRIVER(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING);
}

static CUresult make(struct copy_streams *copy_streams)
{
    CUresult result = DRIVER(cuStreamCreate)(&copy_streams->out, CU_STREAM_NON_BLOCKING);
    result = result ? result : DRIVER(cuStreamCreate)(&copy_streams->in, CU_STREAM_NON_BLOCKING);
    result = result ? result : DRIVER(cuStreamCreate)(&copy_streams->hash, CU_STREAM_NON_BLOCKING);
    result = result ? result : make_event(&copy_streams->scanned);
    for (int i = 0; !result && i < COPY_DEPTH; i++) {
        result = make_event(&copy_streams->out_done[i]);
        result = result ? result : make_event(&copy_streams->in_done[i]);
    }
    return result;
}

static void destroy_events(CUevent *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i]) {
            DRIVER(cuEventDestroy_v2)(events[i]);
        }
    }
}

/* Of one that was not wholly made: the next try makes all of it. */
static void take_down(struct copy_streams *copy_streams)
{
    CUstream streams[] = {copy_streams->out, copy_streams->in, copy_streams->hash};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (streams[i]) {
            DRIVER(cuStreamDestroy_v2)(streams[i]);
        }
    }
    destroy_events(&copy_streams->scanned, 1);
    destroy_events(copy_streams->out_done, COPY_DEPTH);
    destroy_events(copy_streams->in_done, COPY_DEPTH);
    memset(copy_streams, 0, sizeof(*copy_streams));
}

bool copy_streams_enter(struct copy_streams *copy_streams, struct device *device, CUresult *why)
{
    CUcontext context = NULL;
    *why = CUDA_SUCCESS;
    if (!device_push(device)) {
        return false;
    }
    DRIVER(cuCtxGetCurrent)(&context);
    if (copy_streams->context == context &&
        copy_streams->contexts_destroyed == device->contexts_destroyed) {
        return true;
    }
    memset(copy_streams, 0,
           sizeof(*copy_streams)); /* what it had went with the context it had it in */
    *why = make(copy_streams);
    if (*why != CUDA_SUCCESS) {
        take_down(copy_streams);
        device_pop();
        return false;
    }
    copy_streams->context = context;
    copy_streams->contexts_destroyed = device->contexts_destroyed;
    return true;
}
