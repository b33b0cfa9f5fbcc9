/* Copies as work: rows of bytes from here to there. */
#ifndef SIMGPU_COPY_OP_H
#define SIMGPU_COPY_OP_H

#include "simgpu/stream/op.h"

/* What a program says of a side of a copy: an address of the host, of a GPU, or one of either. */
enum sg_copy_side { SG_SIDE_HOST, SG_SIDE_DEVICE, SG_SIDE_EITHER };
struct sg_copy_sides {
    enum sg_copy_side dst, src;
};

/* The GPU that each side is used from: the stream's, or that of a context that the program named. */
struct sg_copy_users {
    unsigned dst, src;
};

/* Which way the bytes go; CUDA_ERROR_INVALID_VALUE: the program may not name them. */
CUresult sg_copy_resolve(struct sg_copy *copy, struct sg_copy_sides sides, unsigned gpu,
                         struct sg_copy_users users);
/* Rows and slices, out of what the program says. */
CUresult sg_copy_describe(const CUDA_MEMCPY3D *params, struct sg_copy *out,
                          struct sg_copy_sides *sides);

/* A copy as work; the parameters are checked. */
CUresult sg_copy_op(struct sg_op **out, const CUDA_MEMCPY3D *params, unsigned gpu);

#endif
