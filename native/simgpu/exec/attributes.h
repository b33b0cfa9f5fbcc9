/* What a launch is told beside its shape: whether all of it must run at once, in which clusters, and
 * which events stand for it. */
#ifndef SIMGPU_ATTRIBUTES_H
#define SIMGPU_ATTRIBUTES_H

#include "simgpu/stream/op.h"

/* Takes them over. CUDA_ERROR_INVALID_VALUE: one that no launch has. */
CUresult sg_attributes_take(struct sg_attributes **out, const CUlaunchAttribute *attributes,
                            unsigned count);
int sg_attributes_have(const struct sg_attributes *attributes, CUlaunchAttributeID id);

/* Whether the card can run it so: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE where not all of its blocks
 * fit at once, CUDA_ERROR_INVALID_CLUSTER_SIZE. */
CUresult sg_attributes_check(const struct sg_kernel_launch *launch);

#endif
