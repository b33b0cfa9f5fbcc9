#include "simgpu/context/context.h"

void sg_context_break(CUcontext context, CUresult why)
{
    CUresult none = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&context->broken, &none, why, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
}

void sg_context_wait(CUcontext context)
{
    int cancelled;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    pthread_cond_wait(&context->changed, &context->lock);
    pthread_setcancelstate(cancelled, NULL);
}
