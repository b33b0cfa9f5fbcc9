/* Allocating from a pool: of the memory that it has, or of more. */
#ifndef MOIETY_SHIM_POOL_POOL_ALLOC_H
#define MOIETY_SHIM_POOL_POOL_ALLOC_H

#include "cuda/cuda_abi.h"
#include <stddef.h>

struct pool;

/* Allocates memory for what follows in the stream; the driver's own error codes. No lock is held, and the
 * caller is outside the gate. */
CUresult pool_allocate(struct pool *pool, CUdeviceptr *pointer, size_t bytes, CUstream stream);

#endif
