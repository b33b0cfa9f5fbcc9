#include "simgpu/exec/launch.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/handles.h"
#include "simgpu/exec/launch_fail.h"
#include "simgpu/exec/module.h"
#include "simgpu/exec/stream_exec.h"

/* `extra` is a list of pairs. Its buffer holds the parameters in the layout of a C struct. */
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
    CUresult failure = sg_launch_failure(function->name);
    if (failure != CUDA_SUCCESS) {
        return failure;
    }
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads || threads > 1024 || block[2] > 64 ||
        grid[1] > 65535 || grid[2] > 65535 || grid[0] > 0x7fffffffu || (params && extra)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (shared > (function->max_dynamic_shared ? (unsigned)function->max_dynamic_shared : 49152u)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(&sg_kind_kernel);
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
