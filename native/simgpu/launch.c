/* Launching kernels. */
#include "simgpu/launch.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/attributes.h"
#include "simgpu/module.h"
#include "simgpu/stream.h"

/* `extra` is a list of pairs; the buffer in it has the parameters where a C struct would have them. */
static const void *packed_params(void **extra, size_t *bytes)
{
    const void *buffer = NULL;
    *bytes = 0;
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[1];
        } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            *bytes = *(size_t *)extra[1];
        } else {
            return NULL;
        }
    }
    return buffer;
}

static CUresult copy_params(struct sg_kernel_launch *launch, void **params, void **extra)
{
    CUfunction function = launch->function;
    const struct simgpu_kernel *kernel = function->kernel;
    if (kernel->params == 0) {
        return CUDA_SUCCESS;
    }
    launch->bytes = function->params_bytes;
    launch->values = calloc(1, launch->bytes);
    if (params) {
        for (uint32_t i = 0; i < kernel->params; i++) {
            if (!params[i]) {
                return CUDA_ERROR_INVALID_VALUE;
            }
            memcpy((char *)launch->values + function->offset[i], params[i], kernel->size[i]);
        }
        return CUDA_SUCCESS;
    }
    size_t bytes;
    const void *buffer = packed_params(extra, &bytes);
    if (!buffer || bytes < launch->bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(launch->values, buffer, launch->bytes);
    return CUDA_SUCCESS;
}

CUresult sg_launch_op(struct sg_op **out, CUfunction function, const unsigned grid[3],
                      const unsigned block[3], unsigned shared, void **params, void **extra)
{
    if (!sg_handle_is(function, SG_FUNCTION)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads || threads > 1024 || block[2] > 64 ||
        grid[1] > 65535 || grid[2] > 65535 || grid[0] > 0x7fffffffu || (params && extra)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (shared > (function->max_dynamic_shared ? (unsigned)function->max_dynamic_shared : 49152u)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(SG_OP_KERNEL);
    op->kernel.function = function;
    for (int i = 0; i < 3; i++) {
        op->kernel.shape.grid[i] = grid[i];
        op->kernel.shape.block[i] = block[i];
    }
    op->kernel.shape.shared_bytes = shared;
    CUresult result = copy_params(&op->kernel, params, extra);
    if (result) {
        sg_op_free(op);
    } else {
        *out = op;
    }
    return result;
}

static CUresult launch(CUfunction function, const unsigned grid[3], const unsigned block[3],
                       unsigned shared, CUstream handle, void **params, void **extra,
                       const CUlaunchAttribute *attributes, unsigned count)
{
    CUstream stream;
    struct sg_op *op;
    SG_TRY(sg_stream_of(handle, &stream));
    SG_TRY(sg_launch_op(&op, function, grid, block, shared, params, extra));
    CUresult result = sg_attributes_take(&op->kernel.attributes, attributes, count);
    result = result ? result : sg_attributes_check(&op->kernel);
    if (result) {
        sg_op_free(op);
        return result;
    }
    return sg_submit(stream, op);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream, void **params,
                        void **extra)
{
    return launch(function, (unsigned[3]){grid_x, grid_y, grid_z},
                  (unsigned[3]){block_x, block_y, block_z}, shared, stream, params, extra, NULL, 0);
}

/* An event that the kernel itself would trigger, at its start or when all its blocks have begun, is here
 * recorded behind it: later than on a card, never too early. */
static CUresult record_events(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
            SG_TRY(cuEventRecord(attribute->value.programmaticEvent.event, config->hStream));
        } else if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
            SG_TRY(cuEventRecord(attribute->value.launchCompletionEvent.event, config->hStream));
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra)
{
    if (!c || (c->numAttrs && !c->attrs)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(launch(function, (unsigned[3]){c->gridDimX, c->gridDimY, c->gridDimZ},
                  (unsigned[3]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes,
                  c->hStream, params, extra, c->attrs, c->numAttrs));
    return record_events(c);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream,
                                   void **params)
{
    const CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                         .value = {.cooperative = 1}};
    return launch(function, (unsigned[3]){grid_x, grid_y, grid_z},
                  (unsigned[3]){block_x, block_y, block_z}, shared, stream, params, NULL,
                  &attribute, 1);
}
