/* Contexts: what a program's work on one GPU belongs to. */
#ifndef SIMGPU_CONTEXT_H
#define SIMGPU_CONTEXT_H

#include <pthread.h>

#include "cuda/cuda_calls.h"
#include "simgpu/shared/profile.h"

#define SG_LIMITS 12

struct CUctx_st {
    unsigned gpu;
    unsigned flags;
    unsigned version; /* the API version it was created with */
    int primary, retained;
    unsigned attached; /* how often a program attached itself to it, beside making it */
    int destroyed;
    uint32_t faults_seen;  /* GPU errors that this context has looked at */
    CUresult sticky_error; /* ends all work of this context; CUDA_SUCCESS: none */
    uint64_t id;
    size_t limit[SG_LIMITS];
    CUfunc_cache cache;

    pthread_mutex_t lock;   /* guards the context and all of its streams */
    pthread_cond_t changed; /* signalled when work is done */
    CUstream streams;       /* in a list */
    CUstream legacy;
    int peers[SG_DEVICES_MAX];
};

/* Waits until `changed` is signalled. The caller holds the lock. The thread cannot be cancelled meanwhile,
 * because it would leave the lock taken. */
void sg_context_wait(CUcontext context);
void sg_context_set_error(CUcontext context, CUresult why);

#endif
