/* The entry points about the stack of current contexts. */
#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    SG_ENTER();
    if (!sg_handle_is(context, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (sg_context_stack_is_full()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_context_stack_push(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    SG_ENTER();
    CUcontext context = sg_context_current();
    if (!context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sg_context_stack_pop();
    if (out) {
        *out = context;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }

CUresult cuCtxPopCurrent(CUcontext *out) { return cuCtxPopCurrent_v2(out); }

CUresult cuCtxSetCurrent(CUcontext context)
{
    SG_ENTER();
    if (context && !sg_handle_is(context, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (sg_context_current()) {
        sg_context_stack_pop();
    }
    if (context) {
        sg_context_stack_push(context);
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_context_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *out)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_context_current()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *out = sg_ordinal_of(sg_context_current()->gpu);
    return CUDA_SUCCESS;
}
