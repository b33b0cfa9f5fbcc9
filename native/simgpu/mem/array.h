/* Arrays: memory that only copies and textures can name. Here it lies in rows, one after the other. */
#ifndef SIMGPU_ARRAY_H
#define SIMGPU_ARRAY_H

#include "cuda/cuda_calls.h"

struct CUarray_st {
    CUcontext context;
    CUDA_ARRAY3D_DESCRIPTOR form;
    CUdeviceptr base;
    size_t pitch, slice;        /* bytes from row to row, layer to layer */
    CUmipmappedArray mipmapped; /* NULL: it stands alone */
};

/* A live one, or NULL. */
CUarray sg_array(CUarray handle);
/* Where it begins, if so many bytes, rows and layers from (x, y, z) on are in it; 0: they are not. */
uint64_t sg_array_has(CUarray handle, size_t x, size_t y, size_t z, size_t width, size_t height,
                      size_t depth);

#endif
