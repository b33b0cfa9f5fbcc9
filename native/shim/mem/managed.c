#include "shim/mem/managed.h"

#include <stdlib.h>

#include "shim/base/driver.h"

static void release(struct extent *extent)
{
    /* Any context of the process will do; with none left, the memory went with its own. */
    DRIVER(cuMemFree_v2)(extent->base);
}

/* It has no chunks, so nothing of it is ever mapped here. */
static const struct extent_ops managed_ops = {.kind = EXTENT_MANAGED, .release = release};

CUresult managed_make(struct extent **extent, struct device *device, uint64_t bytes,
                      unsigned attach)
{
    struct extent *made = calloc(1, sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = DRIVER(cuMemAllocManaged)(&made->base, bytes, attach);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    made->bytes = bytes;
    made->span = (bytes + MANAGED_PAGE - 1) / MANAGED_PAGE * MANAGED_PAGE;
    made->device = device;
    made->ops = &managed_ops;
    DRIVER(cuCtxGetCurrent)(&made->context);
    *extent = made;
    return CUDA_SUCCESS;
}
