/* Which context is current: every thread has a stack of them, and the top is it. */
#ifndef SIMGPU_CONTEXT_STACK_H
#define SIMGPU_CONTEXT_STACK_H

#include "simgpu/base/entry.h"
#include "simgpu/context/context.h"

CUresult sg_enter_context(CUcontext *out); /* sg_enter, and with a context that works */

#define SG_CONTEXT(name)                            \
    CUcontext name;                                 \
    do {                                            \
        CUresult entered = sg_enter_context(&name); \
        if (entered)                                \
            return entered;                         \
    } while (0)

/* The calling thread's, NULL when it has none. */
CUcontext sg_context_current(void);

/* Pushing needs room, popping something that is there. */
int sg_context_stack_is_full(void);
void sg_context_stack_push(CUcontext context);
void sg_context_stack_pop(void);

#endif
