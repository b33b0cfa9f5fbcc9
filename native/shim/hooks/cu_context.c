/* Start, devices and contexts: where the agent learns which GPUs a process uses. */
#include <stdlib.h>
#include <time.h>

#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"
#include "shim/control/control_thread.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/gate/stream_capture.h"
#include "shim/gate/streams.h"
#include "shim/hooks/visible.h"
#include "shim/ipc/import.h"
#include "shim/mem/accounting.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/oom_retry.h"
#include "shim/mem/peer_access.h"
#include "shim/mem/release.h"
#include "shim/pool/pool.h"

/* How long creating a context waits for memory that the driver still counts as used
 * (oom_retry.c). */
#define PATIENCE_NS 15000000000ull

CUresult cuInit(unsigned int flags)
{
    if (!driver_load()) {
        return CUDA_ERROR_NO_DEVICE;
    }
    CUresult result = visible_init(flags);
    return result == CUDA_SUCCESS ? control_begin() : result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CUresult result = DRIVER(cuDeviceTotalMem_v2)(bytes, dev);
    if (result == CUDA_SUCCESS && client_is_active()) {
        struct device *device = device_look_up(dev);
        *bytes = device ? device_limit(device) : *bytes;
    }
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    CUresult result = DRIVER(cuDeviceTotalMem)(bytes, dev);
    struct device *device = NULL;
    if (result == CUDA_SUCCESS && client_is_active()) {
        device = device_look_up(dev);
    }
    if (device) {
        uint64_t limit = device_limit(device);
        *bytes = limit > UINT32_MAX ? UINT32_MAX : (unsigned int)limit;
    }
    return result;
}

static bool may_try_again(CUresult result, struct device *device, unsigned *attempt,
                          uint64_t began_ns)
{
    struct timespec pause = {0, 5000000};
    if (result == CUDA_ERROR_OUT_OF_MEMORY && *attempt < OOM_ATTEMPTS) {
        bool made = oom_retry_on(device, *attempt);
        *attempt = made ? *attempt + 1 : OOM_ATTEMPTS;
        if (made) {
            return true;
        }
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY || now_ns() - began_ns > PATIENCE_NS) {
        return false;
    }
    nanosleep(&pause, NULL);
    return true;
}

static void context_gone(struct device *device, CUcontext context)
{
    pools_forget_context(device, context);
    release_context(device, context);
    peer_access_forget(context);
    ipc_import_forget(context);
    accounting_detach_unused(device);
}

/* Room first, then the driver's own call, then the agent is told. */
#define CREATE_CONTEXT(context, dev, call)                       \
    struct device *device = NULL;                                \
    uint64_t began_ns = now_ns();                                \
    unsigned attempt = 0;                                        \
    CUresult result;                                             \
    if (!client_is_active()) {                                   \
        return call;                                             \
    }                                                            \
    result = device_attach(dev, &device);                        \
    if (result != CUDA_SUCCESS) {                                \
        return result;                                           \
    }                                                            \
    do {                                                         \
        result = call;                                           \
    } while (may_try_again(result, device, &attempt, began_ns)); \
    if (result == CUDA_SUCCESS) {                                \
        device_add_context(device, *(context));                  \
    }                                                            \
    device_created(device);                                      \
    if (result != CUDA_SUCCESS) {                                \
        accounting_detach_unused(device);                        \
    }                                                            \
    return result

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice dev)
{
    CREATE_CONTEXT(context, dev, DRIVER(cuCtxCreate)(context, flags, dev));
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice dev)
{
    CREATE_CONTEXT(context, dev, DRIVER(cuCtxCreate_v2)(context, flags, dev));
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count,
                        unsigned int flags, CUdevice dev)
{
    CREATE_CONTEXT(context, dev, DRIVER(cuCtxCreate_v3)(context, params, count, flags, dev));
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
                        CUdevice dev)
{
    CREATE_CONTEXT(context, dev, DRIVER(cuCtxCreate_v4)(context, params, flags, dev));
}

static void forget(CUcontext context)
{
    queue_depth_forget_context(context);
    stream_capture_forget_context(context);
    streams_forget_context(context);
}

/* Old programs attach themselves to a context more than once, and detach as often: the last time destroys it. */
static struct attachment {
    struct attachment *next;
    CUcontext context;
} *attachments; /* under contexts_lock */

CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
    CUresult result = DRIVER(cuCtxAttach)(ctx, flags);
    struct attachment *made =
        result == CUDA_SUCCESS && client_is_active() ? malloc(sizeof(*made)) : NULL;
    if (made) {
        LOCK_SCOPE(&contexts_lock);
        *made = (struct attachment){attachments, *ctx};
        attachments = made;
    }
    return result;
}

/* True: the context was attached to once more, and stays. */
static bool take_attachment(CUcontext context)
{
    LOCK_SCOPE(&contexts_lock);
    struct attachment **at = &attachments;
    while (*at && (*at)->context != context) {
        at = &(*at)->next;
    }
    struct attachment *gone = *at;
    if (gone) {
        *at = gone->next;
        free(gone);
    }
    return gone != NULL;
}

/* A primary context is released and not destroyed: the driver refuses, and all that is in it stays. */
static bool is_primary(CUcontext context)
{
    const struct device *device = device_next(NULL);
    while (device && device->primary != context) {
        device = device_next(device);
    }
    return device != NULL;
}

static CUresult destroy(CUcontext context, CUresult (*real)(CUcontext))
{
    struct device *device = NULL;
    if (!client_is_active() || !context || is_primary(context)) {
        return real(context);
    }
    lock_take(&contexts_lock);
    bool known = device_begin_destroy(context, &device);
    forget(context);
    CUresult result = real(context);
    device_end_destroy();
    if (known && result != CUDA_SUCCESS) {
        device_add_context(device, context);
    }
    lock_drop(&contexts_lock);
    if (result == CUDA_SUCCESS) {
        while (take_attachment(context)) {
        }
    }
    if (known && result == CUDA_SUCCESS) {
        context_gone(device, context);
    }
    return result;
}

CUresult cuCtxDestroy(CUcontext context) { return destroy(context, DRIVER(cuCtxDestroy)); }

CUresult cuCtxDestroy_v2(CUcontext context) { return destroy(context, DRIVER(cuCtxDestroy_v2)); }

CUresult cuCtxDetach(CUcontext ctx)
{
    return take_attachment(ctx) ? DRIVER(cuCtxDetach)(ctx) : destroy(ctx, DRIVER(cuCtxDetach));
}

static CUresult retain(CUcontext *context, CUdevice dev)
{
    CREATE_CONTEXT(context, dev, DRIVER(cuDevicePrimaryCtxRetain)(context, dev));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice dev)
{
    CUresult result = retain(context, dev);
    if (result == CUDA_SUCCESS && client_is_active()) {
        struct device *device = device_look_up(dev);
        if (device) {
            device->primary = *context;
        }
    }
    return result;
}

/* A release or a reset: is the primary context still there afterwards? */
static CUresult leave_primary(CUdevice dev, CUresult (*real)(CUdevice))
{
    unsigned int flags;
    int alive = 1;
    bool gone = false;
    CUcontext context = NULL;
    struct device *device = client_is_active() ? device_look_up(dev) : NULL;
    if (!device) {
        return real(dev);
    }
    lock_take(&contexts_lock);
    CUresult result = real(dev);
    if (result == CUDA_SUCCESS) {
        DRIVER(cuDevicePrimaryCtxGetState)(dev, &flags, &alive);
    }
    if (!alive && device->primary) {
        context = device->primary;
        device->primary = NULL;
        gone = device_remove_context(context, &device);
        forget(context);
    }
    lock_drop(&contexts_lock);
    if (gone) {
        context_gone(device, context);
    }
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return leave_primary(dev, DRIVER(cuDevicePrimaryCtxRelease));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    return leave_primary(dev, DRIVER(cuDevicePrimaryCtxRelease_v2));
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return leave_primary(dev, DRIVER(cuDevicePrimaryCtxReset));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    return leave_primary(dev, DRIVER(cuDevicePrimaryCtxReset_v2));
}
