/* What the files of the runtime share: how a call is exported.
 *
 * Files in streams/ are compiled twice. The second time, with RT_PER_THREAD, their functions get the names of
 * the per-thread default stream's flavour and call the driver's functions of that flavour (driver.h).
 */
#ifndef MOIETY_CUDART_RUNTIME_H
#define MOIETY_CUDART_RUNTIME_H

#include <stdint.h>

#include "cuda/cuda_calls.h"
#include "cudart/cudart_abi.h"

#define RT_EXPORT __attribute__((visibility("default")))
#define RT_DEVICES_MAX 64

/* RT_CALL(name, parameters) { body }: an exported function of the runtime */
#define RT_CALL(name, ...)                   \
    RT_EXPORT cudaError_t name(__VA_ARGS__); \
    cudaError_t name(__VA_ARGS__)

static inline CUdeviceptr rt_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
