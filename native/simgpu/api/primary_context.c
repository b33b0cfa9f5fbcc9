/* Primary contexts: one for each GPU, which all of a program's libraries share. */
#include "simgpu/api/context_lifecycle.h"
#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"

static CUcontext primary[SG_DEVICES_MAX]; /* under the contexts' lock */
static unsigned primary_flags[SG_DEVICES_MAX];

static CUresult primary_of(CUcontext *out, CUdevice device)
{
    unsigned gpu = sg_device_of(device);
    CUresult result = CUDA_SUCCESS;
    if (!primary[gpu] || primary[gpu]->destroyed) {
        result = sg_context_create(&primary[gpu], primary_flags[gpu], gpu, 3020);
        if (!result) {
            primary[gpu]->primary = 1;
        } else {
            primary[gpu] = NULL;
        }
    }
    *out = primary[gpu];
    return result;
}

static CUcontext living(CUdevice device)
{
    CUcontext context = primary[sg_device_of(device)];
    return context && !context->destroyed ? context : NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    sg_contexts_lock();
    CUresult result = primary_of(out, device);
    if (!result) {
        (*out)->retained++;
    }
    sg_contexts_unlock();
    return result;
}

static CUresult let_go(CUdevice device, int all)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    sg_contexts_lock();
    unsigned gpu = sg_device_of(device);
    CUcontext context = living(device);
    CUresult result = CUDA_SUCCESS;
    if (!context) {
        result = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    } else if (all || --context->retained <= 0) {
        sg_context_destroy(context);
        primary[gpu] = NULL;
    }
    sg_contexts_unlock();
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return let_go(device, 0); }

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return let_go(device, 0); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return let_go(device, 1); }

CUresult cuDevicePrimaryCtxReset(CUdevice device) { return let_go(device, 1); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_contexts_lock();
    primary_flags[sg_device_of(device)] = flags;
    if (living(device)) {
        living(device)->flags = flags;
    }
    sg_contexts_unlock();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!flags || !active) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_contexts_lock();
    *active = living(device) != NULL;
    *flags = primary_flags[sg_device_of(device)];
    sg_contexts_unlock();
    return CUDA_SUCCESS;
}
