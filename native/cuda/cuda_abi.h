/* What a program and a CUDA driver exchange: the documented driver API's types, as our own declarations.
 *
 * The names, values and layouts are the API's, because binaries depend on them; they were taken from its
 * documentation and are compared with NVIDIA's own header, where one can be had, by
 * tests/native/test_simgpu_abi.py. Types that neither the shim nor simgpu looks into
 * (textures, graphics, green contexts) are opaque pointers. cuda_calls.h declares the functions.
 */
#ifndef MOIETY_CUDA_ABI_H
#define MOIETY_CUDA_ABI_H

/* Each header includes the one before it. */
#include "cuda/abi/graph.h"

#endif
