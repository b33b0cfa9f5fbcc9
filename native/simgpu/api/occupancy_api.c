/* The entry points about how much of a kernel runs on a card at once. */
#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/occupancy.h"

static CUresult find(const void *function)
{
    SG_ENTER();
    return sg_handle_is(function, SG_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int block, size_t shared,
                                                              unsigned int flags)
{
    SG_CONTEXT(context);
    SG_TRY(find(function));
    if (!blocks || block <= 0 || flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks = sg_blocks_per_multiprocessor(context->gpu, block, shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block,
                                                     size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared,
                                                   int limit, unsigned int flags)
{
    SG_CONTEXT(context);
    (void)flags;
    SG_TRY(find(function));
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid =
        (int)sg_profile_of(context->gpu)->multiprocessors *
        sg_blocks_per_multiprocessor(context->gpu, *block, shared_of ? shared_of(*block) : shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared,
                                                     limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks,
                                                 int block)
{
    SG_CONTEXT(context);
    (void)block;
    SG_TRY(find(function));
    if (blocks <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = sg_profile_of(context->gpu)->shared_per_multiprocessor / (unsigned)blocks;
    return CUDA_SUCCESS;
}

/* ---- clusters ---- */

static uint64_t cluster_size(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            return (uint64_t)value->clusterDim.x * value->clusterDim.y * value->clusterDim.z;
        }
    }
    return 0;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
                                            const CUlaunchConfig *config)
{
    SG_CONTEXT(context);
    SG_TRY(find(function));
    if (!size || !config) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *size = (int)sg_cluster_most(context->gpu, function);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config)
{
    SG_CONTEXT(context);
    SG_TRY(find(function));
    if (!count || !config || (config->numAttrs && !config->attrs)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t size = cluster_size(config);
    if (!size || size > sg_cluster_most(context->gpu, function)) {
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    uint64_t blocks =
        (uint64_t)sg_profile_of(context->gpu)->multiprocessors *
        (uint64_t)sg_blocks_per_multiprocessor(
            context->gpu, (int)(config->blockDimX * config->blockDimY * config->blockDimZ),
            config->sharedMemBytes);
    *count = (int)(blocks / size);
    return CUDA_SUCCESS;
}
