/* Arrays: memory that only copies and textures can name. Its rows lie one after the other. */
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

/* Returns the array, or NULL if there is no such handle. */
CUarray sg_array(CUarray handle);
/* Returns the array's address if a box of bytes, rows and layers at (x, y, z) lies inside, else 0. */
uint64_t sg_array_has(CUarray handle, size_t x, size_t y, size_t z, size_t width, size_t height,
                      size_t depth);

#endif
