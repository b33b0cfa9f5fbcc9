/* Growing arrays of the driver's own. A few more bytes of host memory are not to be had: there is no way on. */
#ifndef SIMGPU_RESIZE_H
#define SIMGPU_RESIZE_H

#include <stdlib.h>

static inline void *sg_resize(void *array, size_t bytes)
{
    void *grown = realloc(array, bytes);
    if (!grown) {
        abort();
    }
    return grown;
}

#endif
