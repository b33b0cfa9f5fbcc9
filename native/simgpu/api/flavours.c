/* The _ptds and _ptsz entry points: the same calls, but stream 0 is the calling thread's own stream. */
#include "simgpu/base/entry.h"

#define FLAVOUR(name, suffix, parameters, arguments) \
    CUresult name##suffix parameters                 \
    {                                                \
        int outer = sg_per_thread_default;           \
        sg_per_thread_default = 1;                   \
        CUresult result = name arguments;            \
        sg_per_thread_default = outer;               \
        return result;                               \
    }

#define CUDA_CALL(name, parameters, arguments)
#define CUDA_CALL_DS(name, parameters, arguments) FLAVOUR(name, _ptds, parameters, arguments)
#define CUDA_CALL_SZ(name, parameters, arguments) FLAVOUR(name, _ptsz, parameters, arguments)
#include "cuda/cuda_calls.def"
