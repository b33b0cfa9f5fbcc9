/* The entry points about memory that graphs allocate. */
#include <string.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_memory.h"
#include "simgpu/stream/op.h"

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    sg_graph_memory_trim(sg_device_of(device));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    uint64_t answer;
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    struct sg_graph_memory_sums sums = sg_graph_memory_sums(sg_device_of(device));
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        answer = sums.used;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        answer = sums.used_high;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        answer = sums.reserved;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        answer = sums.reserved_high;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(value, &answer, sizeof answer);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    uint64_t wanted;
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    int used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    int reserved = attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (!value || (!used && !reserved)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&wanted, value, sizeof wanted);
    if (wanted) { /* only back to what it is now */
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_graph_memory_reset_high(sg_device_of(device), used, reserved);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                size_t size, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct sg_op *op;
    SG_TRY(sg_graph_check_dependencies(out, graph, depends, size));
    if (!params || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        params->poolProps.handleTypes || !sg_device_is(params->poolProps.location.id)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_graph_alloc_op(&op, graph, depends, size, sg_device_of(params->poolProps.location.id),
                             params->bytesize, &params->dptr));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, op, depends, size);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                               size_t size, CUdeviceptr address)
{
    struct sg_op *op;
    SG_TRY(sg_graph_check_dependencies(out, graph, depends, size));
    SG_TRY(sg_graph_free_op(&op, address));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, op, depends, size);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    unsigned gpu;
    size_t bytes;
    CUdeviceptr address;
    SG_ENTER();
    if (!params || !sg_handle_is(node, SG_GRAPH_NODE) ||
        node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        sg_graph_memory_of(node, &gpu, &bytes, &address) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *params = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, sg_ordinal_of(gpu)}},
        .bytesize = bytes,
        .dptr = address};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    unsigned gpu;
    size_t bytes;
    SG_ENTER();
    if (!address || !sg_handle_is(node, SG_GRAPH_NODE) ||
        node->type != CU_GRAPH_NODE_TYPE_MEM_FREE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sg_graph_memory_of(node, &gpu, &bytes, address) == 0 ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}
