/* Contexts: what a program's work on one GPU belongs to. */
#ifndef SIMGPU_CONTEXT_H
#define SIMGPU_CONTEXT_H

#include "simgpu/driver.h"

#define SG_LIMITS 12

struct CUctx_st {
    unsigned gpu;
    unsigned flags;
    unsigned version; /* of the API it was created with */
    int primary, retained;
    int destroyed;
    uint32_t faults_seen; /* errors of GPUs that were looked at */
    CUresult broken;      /* sticky: an error that ends everything in this context */
    uint64_t id;
    size_t limit[SG_LIMITS];
    CUfunc_cache cache;

    pthread_mutex_t lock;   /* all of its streams */
    pthread_cond_t changed; /* some work is done */
    CUstream streams;       /* in a list */
    CUstream legacy;
    int peers[SG_DEVICES_MAX];
};

/* The calling thread's, NULL when it has none. */
CUcontext sg_context_current(void);

/* The thread's stack of them. Pushing needs room, popping something that is there. */
int sg_context_stack_is_full(void);
void sg_context_stack_push(CUcontext context);
void sg_context_stack_pop(void);

/* Until something in it changed; called with its lock. Nobody is cancelled in it: the lock would stay taken. */
void sg_context_wait(CUcontext context);

/* Creating and destroying is done under this lock. */
void sg_contexts_lock(void);
void sg_contexts_unlock(void);
CUresult sg_context_create(CUcontext *out, unsigned flags, unsigned gpu, unsigned version);
void sg_context_destroy(CUcontext context);

/* Waits until nothing of the context runs or stands in line. */
CUresult sg_context_drain(CUcontext context);
void sg_context_break(CUcontext context, CUresult why);

/* A primary context that was put aside comes back when somebody uses it; used by cuLibrary and others. */
CUcontext sg_primary_context(CUdevice device);

#endif
