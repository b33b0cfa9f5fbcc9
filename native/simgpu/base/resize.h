/* Growing arrays. The driver aborts when the host has no memory for them. */
#ifndef SIMGPU_RESIZE_H
#define SIMGPU_RESIZE_H

#include <stdlib.h>
#include <string.h>

static inline void *sg_resize(void *array, size_t bytes)
{
    void *grown = realloc(array, bytes);
    if (!grown) {
        abort();
    }
    return grown;
}

/* Returns a copy, or NULL if there is nothing to copy. */
static inline void *sg_copied(const void *from, size_t bytes)
{
    return from && bytes ? memcpy(sg_resize(NULL, bytes), from, bytes) : NULL;
}

#endif
