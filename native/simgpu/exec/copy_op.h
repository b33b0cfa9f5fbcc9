/* Copies as work: rows of bytes from one address to another. */
#ifndef SIMGPU_COPY_OP_H
#define SIMGPU_COPY_OP_H

#include "simgpu/stream/op.h"

/* The memory that a program names on one side of a copy: the host's, a GPU's, or either. */
enum sg_copy_side { SG_SIDE_HOST, SG_SIDE_DEVICE, SG_SIDE_EITHER };
struct sg_copy_sides {
    enum sg_copy_side dst, src;
};

/* The GPU that accesses each side: the stream's, or that of a context that the program named. */
struct sg_copy_users {
    unsigned dst, src;
};

/* Finds the direction of a copy. Returns CUDA_ERROR_INVALID_VALUE if the program has no access to its
 * bytes. */
CUresult sg_copy_resolve(struct sg_copy *copy, struct sg_copy_sides sides, unsigned gpu,
                         struct sg_copy_users users);
/* Fills in rows, pitches and slices from the program's parameters. */
CUresult sg_copy_describe(const CUDA_MEMCPY3D *params, struct sg_copy *out,
                          struct sg_copy_sides *sides);

/* Makes a copy as work and checks the parameters. */
CUresult sg_copy_op(struct sg_op **out, const CUDA_MEMCPY3D *params, unsigned gpu);

#endif
