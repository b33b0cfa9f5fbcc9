#include "simgpu/exec/attributes.h"

#include <stdlib.h>

#include "simgpu/base/devices.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/occupancy.h"

CUresult sg_attributes_take(struct sg_attributes **out, const CUlaunchAttribute *attributes,
                            unsigned count)
{
    *out = NULL;
    if (count && !attributes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)attributes[i].id >= SG_ATTRIBUTES) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (!count) {
        return CUDA_SUCCESS;
    }
    struct sg_attributes *made = calloc(1, sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (unsigned i = 0; i < count; i++) {
        made->set |= 1u << attributes[i].id;
        made->values[attributes[i].id] = attributes[i].value;
    }
    *out = made;
    return CUDA_SUCCESS;
}

int sg_attributes_have(const struct sg_attributes *attributes, CUlaunchAttributeID id)
{
    return attributes && attributes->set >> id & 1;
}

CUresult sg_attributes_check(const struct sg_kernel_launch *launch)
{
    const struct sg_attributes *attributes = launch->attributes;
    const unsigned *grid = launch->shape.grid, *block = launch->shape.block;
    CUcontext context = sg_context_current();
    unsigned gpu = context ? context->gpu : 0;
    int threads = (int)(block[0] * block[1] * block[2]);
    if (sg_attributes_have(attributes, CU_LAUNCH_ATTRIBUTE_COOPERATIVE) &&
        attributes->values[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative) {
        uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
        uint64_t most =
            (uint64_t)sg_profile_of(gpu)->multiprocessors *
            (uint64_t)sg_blocks_per_multiprocessor(gpu, threads, launch->shape.shared_bytes);
        if (blocks > most) {
            return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
        }
    }
    if (sg_attributes_have(attributes, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)) {
        const CUlaunchAttributeValue *value =
            &attributes->values[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION];
        unsigned x = value->clusterDim.x, y = value->clusterDim.y, z = value->clusterDim.z;
        uint64_t size = (uint64_t)x * y * z;
        if (!size || grid[0] % x || grid[1] % y || grid[2] % z ||
            size > sg_cluster_most(gpu, launch->function)) {
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        }
    }
    return CUDA_SUCCESS;
}
