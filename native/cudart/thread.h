/* The calling thread, and how its calls begin and end. */
#ifndef MOIETY_CUDART_THREAD_H
#define MOIETY_CUDART_THREAD_H

#include "cudart/runtime.h"

/* Remembers an error for cudaGetLastError, and returns it. */
cudaError_t rt_end(cudaError_t result);
/* The device that the thread's calls go to. */
cudaError_t rt_device(int *device);
/* Makes sure that a context is current: the thread's own choice, else its device's primary one. */
cudaError_t rt_context(void);
/* The primary context of a device, retained once for as long as the process lives. */
cudaError_t rt_primary(int device, CUcontext *context);
/* Ends it; the thread has no context then. */
CUresult rt_primary_reset(int device);

#define RT_TRY(call)                   \
    do {                               \
        cudaError_t rt_tried = (call); \
        if (rt_tried) {                \
            return rt_end(rt_tried);   \
        }                              \
    } while (0)

/* The whole body of a call that needs a context and is one call of the driver. */
#define RT_PASS(call)     \
    RT_TRY(rt_context()); \
    return rt_end((cudaError_t)(call))

#endif
