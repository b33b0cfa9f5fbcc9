/* The entry points about memory as cuMemAlloc gives it. */
#include "simgpu/base/devices.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/graph/graph_memory.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/memory.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/state.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"

#define PITCH 512u

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    SG_CONTEXT(context);
    SG_TRY(sg_capture_forbids());
    return sg_memory_alloc(context, out, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    SG_CONTEXT(context);
    if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return sg_memory_alloc(context, out, *pitch * height);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    SG_CONTEXT(context);
    if (address == 0) {
        return CUDA_SUCCESS;
    }
    SG_TRY(sg_capture_forbids());
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    int there = range && range->base == address;
    CUcontext owner = there ? range->context : NULL;
    int pooled = there && range->kind == SG_RANGE_POOLED;
    int of_graph = there && range->kind == SG_RANGE_GRAPH_MEMORY;
    sg_ranges_unlock();
    if (of_graph) {
        return sg_graph_memory_free(address, NULL);
    }
    if (pooled) { /* freeing it promises that all work with it is done */
        return sg_memory_free(address);
    }
    if (!owner) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_context_drain(owner));
    if (owner != context) {
        SG_TRY(sg_context_drain(context));
    }
    return sg_memory_free(address);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    SG_CONTEXT(context);
    if (!free_bytes || !total) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_lock();
    sg_reap();
    uint64_t used = sg_used_bytes(context->gpu);
    sg_unlock();
    *total = sg_profile_of(context->gpu)->memory_bytes;
    *free_bytes = used < *total ? *total - used : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    SG_CONTEXT(context);
    (void)context;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    if (range && range->kind == SG_RANGE_RESERVED) {
        range = sg_ranges_find_mapped(address);
    }
    if (range && range->kind != SG_RANGE_HOST && range->kind != SG_RANGE_REGISTERED) {
        if (base) {
            *base = range->base;
        }
        if (size) {
            *size = range->size;
        }
        result = CUDA_SUCCESS;
    }
    sg_ranges_unlock();
    return result;
}
