/* Allocating from a pool: of the memory that it has, or of more. */
#ifndef MOIETY_SHIM_POOL_POOL_ALLOC_H
#define MOIETY_SHIM_POOL_POOL_ALLOC_H

#include "cuda/cuda_abi.h"
#include <stddef.h>

struct pool;

/* Memory that whatever follows in the stream may use. */
CUresult pool_allocate(struct pool *pool, CUdeviceptr *pointer, size_t bytes, CUstream stream);

#endif
