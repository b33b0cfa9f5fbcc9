/* The _ptds and _ptsz flavours: the same calls, with stream 0 taken for the calling thread's own. */
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
