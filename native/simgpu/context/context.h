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
    unsigned version; /* of the API it was created with */
    int primary, retained;
    int destroyed;
    uint32_t faults_seen;  /* errors of GPUs that were looked at */
    CUresult sticky_error; /* sticky: an error that ends everything in this context */
    uint64_t id;
    size_t limit[SG_LIMITS];
    CUfunc_cache cache;

    pthread_mutex_t lock;   /* all of its streams */
    pthread_cond_t changed; /* some work is done */
    CUstream streams;       /* in a list */
    CUstream legacy;
    int peers[SG_DEVICES_MAX];
};

/* Until something in it changed; called with its lock. Nobody is cancelled in it: the lock would stay taken. */
void sg_context_wait(CUcontext context);
void sg_context_set_error(CUcontext context, CUresult why);

#endif
