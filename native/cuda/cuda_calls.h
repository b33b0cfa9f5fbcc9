/* Prototypes of the driver entry points in cuda_calls.def, stream flavours included.
 *
 * A pointer to one of them is best written as __typeof__(&cuMemAlloc_v2). Those of plain_calls.def are declared
 * without their parameters: good for their address.
 */
#ifndef MOIETY_CUDA_CALLS_H
#define MOIETY_CUDA_CALLS_H

#include "cuda/cuda_abi.h"

#ifndef CUDA_EXPORT
#    define CUDA_EXPORT __attribute__((visibility("default")))
#endif

#define CUDA_CALL(name, parameters, arguments) CUDA_EXPORT CUresult name parameters;
#define CUDA_CALL_DS(name, parameters, arguments) \
    CUDA_EXPORT CUresult name parameters;         \
    CUDA_EXPORT CUresult name##_ptds parameters;
#define CUDA_CALL_SZ(name, parameters, arguments) \
    CUDA_EXPORT CUresult name parameters;         \
    CUDA_EXPORT CUresult name##_ptsz parameters;
#include "cuda/cuda_calls.def"

#define PLAIN(class, name, symbol, since) CUDA_EXPORT CUresult symbol(void);
#define PLAIN_DS(class, name, symbol, since, since_ptds) \
    CUDA_EXPORT CUresult symbol(void);                   \
    CUDA_EXPORT CUresult symbol##_ptds(void);
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) \
    CUDA_EXPORT CUresult symbol(void);                   \
    CUDA_EXPORT CUresult symbol##_ptsz(void);
#include "cuda/plain_calls.def"

#endif
