#include "shim/mem/zero_fill.h"

#include <stdatomic.h>

#include "shim/base/driver.h"
#include "shim/mem/extent.h"

static atomic_bool wanted;

void zero_fill_set(uint32_t welcome_flags)
{
    atomic_store(&wanted, (welcome_flags & MW_WELCOME_ZERO_FILL) != 0);
}

void zero_fill(struct extent *extent)
{
    CUdevice current;
    CUstream stream;
    if (!atomic_load(&wanted) || extent->ops->kind != EXTENT_PLACED ||
        DRIVER(cuCtxGetDevice)(&current) != CUDA_SUCCESS || current != extent->device->ordinal) {
        return;
    }
    /* A stream of its own waits for no work of the program, and is part of no capture. */
    if (DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        return;
    }
    DRIVER(cuMemsetD32Async)(extent->base, 0, extent->span / sizeof(uint32_t), stream);
    DRIVER(cuStreamSynchronize)(stream);
    DRIVER(cuStreamDestroy_v2)(stream);
}
