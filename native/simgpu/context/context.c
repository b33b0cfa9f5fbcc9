#include "simgpu/context/context.h"

void sg_context_set_error(CUcontext context, CUresult why)
{
    CUresult none = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&context->sticky_error, &none, why, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
}

void sg_context_wait(CUcontext context)
{
    int cancelled;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    pthread_cond_wait(&context->changed, &context->lock);
    pthread_setcancelstate(cancelled, NULL);
}
