/* A CUDA driver that does nothing, so that a benchmark sees only what stands in front of it.
 * Every call succeeds at once; only a lookup and a small copy do what they say. */

#include "cuda/cuda_calls.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CUDA_CALL(name, parameters, arguments) \
    __attribute__((weak)) CUresult name parameters { return CUDA_SUCCESS; }
#define CUDA_CALL_DS(name, parameters, arguments) \
    CUDA_CALL(name, parameters, arguments)        \
    CUDA_CALL(name##_ptds, parameters, arguments)
#define CUDA_CALL_SZ(name, parameters, arguments) \
    CUDA_CALL(name, parameters, arguments)        \
    CUDA_CALL(name##_ptsz, parameters, arguments)
#include "cuda/cuda_calls.def"
