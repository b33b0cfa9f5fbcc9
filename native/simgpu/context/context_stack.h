/* Which context is current: every thread has a stack of them, and the top is it. */
#ifndef SIMGPU_CONTEXT_STACK_H
#define SIMGPU_CONTEXT_STACK_H

#include "simgpu/base/entry.h"
#include "simgpu/context/context.h"

CUresult
sg_enter_context(CUcontext *out); /* sg_enter, and refuses a thread without a working context */

#define SG_CONTEXT(name)                            \
    CUcontext name;                                 \
    do {                                            \
        CUresult entered = sg_enter_context(&name); \
        if (entered)                                \
            return entered;                         \
    } while (0)

/* The calling thread's current context, or NULL. */
CUcontext sg_context_current(void);

/* A caller pushes only onto a stack that is not full, and pops only from one that is not empty. */
int sg_context_stack_is_full(void);
void sg_context_stack_push(CUcontext context);
void sg_context_stack_pop(void);

#endif
