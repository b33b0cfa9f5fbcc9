#include "shim/mem/device_contexts.h"

#include <sched.h>
#include <stdlib.h>

#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/gate/streams.h"

#define CONTEXTS_AT_FIRST 8u

struct lock contexts_lock = LOCK_INIT(LOCK_CONTEXTS);
/* Under device_lock. */
static uint32_t destroying; /* threads that are about to destroy a context */
static uint32_t destroy_ends;

CUresult device_check(void)
{
    int least;
    int greatest; /* the cheapest thing to ask of a context that it answers only while it is well */
    return DRIVER(cuCtxGetStreamPriorityRange)(&least, &greatest);
}

static bool has_context(const struct device *device, CUcontext context)
{
    for (uint32_t i = 0; i < device->context_count; i++) {
        if (device->contexts[i] == context) {
            return true;
        }
    }
    return false;
}

bool device_has_context(const struct device *device, CUcontext context)
{
    LOCK_SCOPE(&device_lock);
    return has_context(device, context);
}

/* With device_lock. False: no memory. */
static bool list_context(struct device *device, CUcontext context)
{
    if (device->context_count == device->context_room) {
        uint32_t room = device->context_room ? 2 * device->context_room : CONTEXTS_AT_FIRST;
        CUcontext *grown = realloc(device->contexts, room * sizeof(CUcontext));
        if (!grown) {
            return false;
        }
        device->contexts = grown;
        device->context_room = room;
    }
    device->contexts[device->context_count++] = context;
    return true;
}

static void tell_of_context(const struct device *device, bool is_listed)
{
    agent_amount(MW_CONTEXT, device->gpu, 0);
    if (!is_listed) {
        client_report_pinned("cuCtxCreate"); /* what runs in this one cannot be waited for */
    }
}

void device_add_context(struct device *device, CUcontext context)
{
    lock_take(&device_lock);
    bool is_new = !has_context(device, context);
    bool is_listed = is_new && list_context(device, context);
    lock_drop(&device_lock);
    if (is_new) {
        tell_of_context(device, is_listed);
    }
}

/* False: a context is being destroyed. */
static bool is_quiet(uint32_t *ends)
{
    LOCK_SCOPE(&device_lock);
    *ends = destroy_ends;
    return destroying == 0;
}

/* False: the context may be one that was destroyed since the driver was asked. */
static bool add_found(struct device *device, CUcontext context, uint32_t ends)
{
    lock_take(&device_lock);
    bool is_alive = destroying == 0 && destroy_ends == ends;
    bool is_new = is_alive && !has_context(device, context);
    bool is_listed = is_new && list_context(device, context);
    lock_drop(&device_lock);
    if (is_new) {
        tell_of_context(device, is_listed);
    }
    return is_alive;
}

/* The current context was made behind our back: it is new, unless another thread destroys it meanwhile. */
static CUresult add_current(struct device *device)
{
    CUcontext context = NULL;
    uint32_t ends;
    CUresult result;
    do {
        while (!is_quiet(&ends)) {
            sched_yield();
        }
        result = device_check();
        if (result == CUDA_SUCCESS) {
            result = DRIVER(cuCtxGetCurrent)(&context);
        }
    } while (result == CUDA_SUCCESS && context && !add_found(device, context, ends));
    return result;
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
    if (result == CUDA_SUCCESS && DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context &&
        !device_has_context(*device, context)) {
        result = add_current(*device);
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

bool device_begin_destroy(CUcontext context, struct device **device)
{
    lock_take(&device_lock);
    destroying++;
    lock_drop(&device_lock);
    return device_remove_context(context, device);
}

void device_end_destroy(void)
{
    LOCK_SCOPE(&device_lock);
    destroying--;
    destroy_ends++;
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

/* From the last one to the first: a context that is removed leaves its place to the last one, which had its turn. */
CUcontext device_next_context(const struct device *device, uint32_t *place)
{
    LOCK_SCOPE(&device_lock);
    uint32_t left = *place < device->context_count ? *place : device->context_count;
    *place = left ? left - 1 : 0;
    return left ? device->contexts[left - 1] : NULL;
}

void device_drain(struct device *device)
{
    uint32_t place = CONTEXTS_ALL;
    CUcontext context;
    while ((context = device_next_context(device, &place)) != NULL) {
        if (DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS) {
            streams_drain(context);
            device_pop();
        }
    }
}

void device_contexts_after_fork(void)
{
    destroying = 0;
    lock_after_fork(&contexts_lock);
}
