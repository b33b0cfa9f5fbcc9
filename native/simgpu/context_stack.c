/* Which context is current: every thread has a stack of them, and the top is it. */
#include "simgpu/context.h"
#include "simgpu/fault.h"

#define STACK_DEPTH 64

static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth;

CUcontext sg_context_current(void) { return depth > 0 ? stack[depth - 1] : NULL; }

int sg_context_stack_is_full(void) { return depth == STACK_DEPTH; }

void sg_context_stack_push(CUcontext context) { stack[depth++] = context; }

void sg_context_stack_pop(void) { depth--; }

CUresult sg_enter_context(CUcontext *out)
{
    SG_ENTER();
    CUcontext context = sg_context_current();
    if (!context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context->destroyed) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    sg_fault_look(context);
    *out = context;
    return context->broken;
}

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
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    depth--;
    if (out) {
        *out = stack[depth];
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
    if (depth > 0) {
        depth--;
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
