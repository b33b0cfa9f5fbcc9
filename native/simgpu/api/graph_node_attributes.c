/* The entry points about the attributes of kernel nodes. */
#include <stdlib.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/exec/attributes.h"
#include "simgpu/graph/graph.h"
#include "simgpu/stream/op.h"

static CUresult find(CUgraphNode node, CUkernelNodeAttrID id, const void *value)
{
    SG_ENTER();
    return value && sg_handle_is(node, SG_GRAPH_NODE) && node->type == CU_GRAPH_NODE_TYPE_KERNEL &&
                   (unsigned)id < SG_ATTRIBUTES
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue *value)
{
    SG_TRY(find(node, id, value));
    const struct sg_attributes *attributes = node->op->kernel.attributes;
    *value = (CUkernelNodeAttrValue){0};
    if (sg_attributes_have(attributes, id)) {
        *value = attributes->values[id];
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue *value)
{
    SG_TRY(find(node, id, value));
    struct sg_kernel_launch *kernel = &node->op->kernel;
    struct sg_kernel_launch tried = *kernel;
    struct sg_attributes *changed = calloc(1, sizeof *changed);
    if (!changed) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (kernel->attributes) {
        *changed = *kernel->attributes;
    }
    changed->set |= 1u << id;
    changed->values[id] = *value;
    tried.attributes = changed;
    CUresult result = sg_attributes_check(&tried);
    if (result) {
        free(changed);
        return result;
    }
    free(kernel->attributes);
    kernel->attributes = changed;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    SG_TRY(find(dst, CU_LAUNCH_ATTRIBUTE_IGNORE, src));
    SG_TRY(find(src, CU_LAUNCH_ATTRIBUTE_IGNORE, dst));
    const struct sg_attributes *from = src->op->kernel.attributes;
    for (unsigned id = 0; id < SG_ATTRIBUTES; id++) {
        if (sg_attributes_have(from, (CUlaunchAttributeID)id)) {
            SG_TRY(cuGraphKernelNodeSetAttribute(dst, (CUkernelNodeAttrID)id, &from->values[id]));
        }
    }
    return CUDA_SUCCESS;
}
