#include "simgpu/graph/graph_node_ops.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/context/context.h"
#include "simgpu/exec/copy_op.h"
#include "simgpu/exec/launch.h"
#include "simgpu/exec/memops.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/peer_access.h"

static CUresult kernel_op(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS_v1 *p, CUkernel kernel)
{
    CUfunction function = p->func ? p->func : (CUfunction)(void *)kernel;
    return sg_launch_op(out, function, (unsigned[3]){p->gridDimX, p->gridDimY, p->gridDimZ},
                        (unsigned[3]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                        p->kernelParams, p->extra);
}

CUresult sg_kernel_node_op_v1(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return params ? kernel_op(out, params, NULL) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_kernel_node_op(struct sg_op **out, const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUDA_KERNEL_NODE_PARAMS_v1 first;
    if (!params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&first, params, sizeof first); /* the newer form begins with the older one */
    return kernel_op(out, &first, params->kern);
}

CUresult sg_copy_node_op(struct sg_op **out, const CUDA_MEMCPY3D *params, CUcontext context)
{
    if (!params || !sg_handle_is(context, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sg_copy_op(out, params, context->gpu);
}

CUresult sg_memset_node_op(struct sg_op **out, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    if (!p || !sg_handle_is(context, SG_CONTEXT_TYPE) || !p->width || !p->height ||
        (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) ||
        !sg_is_device_range(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize) ||
        !sg_has_access(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize, context->gpu,
                       1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_op_new(&sg_kind_memset);
    (*out)->memset = (struct sg_memset){.dst = p->dst,
                                        .width = p->width,
                                        .height = p->height,
                                        .pitch = p->pitch,
                                        .value = p->value,
                                        .element_bytes = p->elementSize};
    return CUDA_SUCCESS;
}

CUresult sg_host_node_op(struct sg_op **out, const CUDA_HOST_NODE_PARAMS *params)
{
    if (!params || !params->fn) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_op_new(&sg_kind_host);
    (*out)->host.call = params->fn;
    (*out)->host.data = params->userData;
    return CUDA_SUCCESS;
}

CUresult sg_event_node_op(struct sg_op **out, const struct sg_op_kind *kind, CUevent event)
{
    if (!sg_handle_is(event, SG_EVENT)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_op_new(kind);
    (*out)->event = event;
    return CUDA_SUCCESS;
}

CUresult sg_memops_node_op(struct sg_op **out, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    if (!params || params->flags || !sg_handle_is(params->ctx, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sg_memops_op(out, params->paramArray, params->count);
}

void sg_node_describe_copy(CUgraphNode node, const CUDA_MEMCPY3D *given)
{
    node->given = sg_resize(node->given, sizeof *given);
    *node->given = *given;
}
