#include "simgpu/context/context_stack.h"

#include "simgpu/context/fault.h"

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
    sg_fault_check(context);
    *out = context;
    return context->sticky_error;
}
