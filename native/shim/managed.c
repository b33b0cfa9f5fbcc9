#include "shim/managed.h"

#include <stdlib.h>

#include "shim/real.h"

CUresult managed_make(struct block **block, struct device *device, uint64_t bytes, unsigned attach)
{
    struct block *made = calloc(1, sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = REAL(cuMemAllocManaged)(&made->base, bytes, attach);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    made->bytes = bytes;
    made->span = (bytes + MANAGED_PAGE - 1) / MANAGED_PAGE * MANAGED_PAGE;
    made->device = device;
    made->managed = true;
    REAL(cuCtxGetCurrent)(&made->context);
    *block = made;
    return CUDA_SUCCESS;
}

void managed_release(struct block *block)
{
    /* Any context of the process will do; with none left, the memory went with its own. */
    REAL(cuMemFree_v2)(block->base);
    free(block);
}
