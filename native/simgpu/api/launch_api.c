/* The entry points that launch kernels. */
#include "simgpu/base/entry.h"
#include "simgpu/capture/submit.h"
#include "simgpu/exec/attributes.h"
#include "simgpu/exec/launch.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

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

/* A card triggers these events while the kernel runs. Here they are recorded behind the kernel: later,
 * never too early. */
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
