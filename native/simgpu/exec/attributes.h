/* Launch attributes: cooperative launches, cluster sizes and launch events. */
#ifndef SIMGPU_ATTRIBUTES_H
#define SIMGPU_ATTRIBUTES_H

#include "simgpu/stream/op.h"

/* Copies the attributes. Returns CUDA_ERROR_INVALID_VALUE for an unknown attribute. */
CUresult sg_attributes_take(struct sg_attributes **out, const CUlaunchAttribute *attributes,
                            unsigned count);
int sg_attributes_have(const struct sg_attributes *attributes, CUlaunchAttributeID id);

/* Checks the launch against the card. Returns CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE if its blocks do not
 * fit at once, or CUDA_ERROR_INVALID_CLUSTER_SIZE. */
CUresult sg_attributes_check(const struct sg_kernel_launch *launch);

#endif
