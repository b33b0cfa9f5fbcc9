#include "shim/mem/device_contexts.h"

#include <string.h>

#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/gate/streams.h"

struct lock contexts_lock = LOCK_INIT(LOCK_CONTEXTS);

CUresult device_check(void)
{
    int least;
    int greatest; /* the cheapest thing to ask of a context that it answers only while it is well */
    return DRIVER(cuCtxGetStreamPriorityRange)(&least, &greatest);
}

bool device_has_context(const struct device *device, CUcontext context)
{
    LOCK_SCOPE(&device_lock);
    for (uint32_t i = 0; i < device->context_count; i++) {
        if (device->contexts[i] == context) {
            return true;
        }
    }
    return false;
}

/* False: it is there already. */
static bool list_context(struct device *device, CUcontext context, bool *full)
{
    LOCK_SCOPE(&device_lock);
    for (uint32_t i = 0; i < device->context_count; i++) {
        if (device->contexts[i] == context) {
            return false;
        }
    }
    *full = device->context_count == CONTEXTS_MAX;
    if (!*full) {
        device->contexts[device->context_count++] = context;
    }
    return true;
}

void device_add_context(struct device *device, CUcontext context)
{
    bool full = false;
    if (list_context(device, context, &full)) {
        agent_amount(MW_CONTEXT, device->gpu, 0);
    }
    if (full) {
        client_report_pinned("cuCtxCreate"); /* what runs in this one cannot be waited for */
    }
}

CUresult device_current(struct device **device)
{
    CUdevice ordinal;
    CUcontext context = NULL;
    CUresult result = DRIVER(cuCtxGetDevice)(&ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = device_of_ordinal(ordinal, device);
    if (result == CUDA_SUCCESS && DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context) {
        device_add_context(*device, context); /* new, if it was made behind our back */
    }
    return result;
}

bool device_remove_context(CUcontext context, struct device **device)
{
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        LOCK_SCOPE(&device_lock);
        for (uint32_t i = 0; i < d->context_count; i++) {
            if (d->contexts[i] == context) {
                d->contexts[i] = d->contexts[--d->context_count];
                d->contexts_destroyed++;
                *device = d;
                return true;
            }
        }
    }
    return false;
}

bool device_push(struct device *device)
{
    lock_take(&device_lock);
    CUcontext context = device->context_count ? device->contexts[0] : NULL;
    lock_drop(&device_lock);
    return context && DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
}

void device_pop(void)
{
    CUcontext context;
    DRIVER(cuCtxPopCurrent_v2)(&context);
}

uint32_t device_contexts(const struct device *device, CUcontext *contexts)
{
    LOCK_SCOPE(&device_lock);
    memcpy(contexts, device->contexts, device->context_count * sizeof(contexts[0]));
    return device->context_count;
}

void device_drain(struct device *device)
{
    CUcontext contexts[CONTEXTS_MAX];
    uint32_t count = device_contexts(device, contexts);
    for (uint32_t i = 0; i < count; i++) {
        if (DRIVER(cuCtxPushCurrent_v2)(contexts[i]) == CUDA_SUCCESS) {
            streams_drain(contexts[i]);
            device_pop();
        }
    }
}

void device_contexts_after_fork(void) { lock_after_fork(&contexts_lock); }
