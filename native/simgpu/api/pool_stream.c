/* The entry points that allocate and free in the order of a stream. */
#include "simgpu/base/entry.h"
#include "simgpu/capture/capture.h"
#include "simgpu/capture/submit.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/graph/graph_memory.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/pool.h"
#include "simgpu/mem/pool_memory.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (stream->capture) {
        struct sg_op *op;
        if (!out || !pool) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        SG_TRY(sg_capture_alloc_op(stream, &op, pool->gpu, bytes, out));
        return sg_submit(stream, op);
    }
    return pool ? sg_pool_alloc(pool, out, bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    return allocate(out, bytes, sg_pool_current(stream->context->gpu), stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    return allocate(out, bytes, sg_pool(pool), stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!address) {
        return CUDA_SUCCESS;
    }
    if (stream->capture) { /* only what a graph allocated */
        struct sg_op *op;
        SG_TRY(sg_graph_free_op(&op, address));
        return sg_submit(stream, op);
    }
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    int pooled = range && range->base == address && range->kind == SG_RANGE_POOLED && range->piece;
    int other = range && range->base == address && !pooled &&
                (range->kind == SG_RANGE_ALLOCATED || range->kind == SG_RANGE_POOLED);
    int of_graph = range && range->base == address && range->kind == SG_RANGE_GRAPH_MEMORY;
    sg_ranges_unlock();
    if (of_graph) {
        SG_TRY(sg_submit(stream, sg_op_new(&sg_kind_nothing)));
        return sg_graph_memory_free(address, stream);
    }
    if (!pooled && !other) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Also empty work orders the free behind the work that its stream waits for. */
    struct sg_op *op = sg_op_new(pooled ? &sg_kind_nothing : &sg_kind_free);
    op->address = address;
    SG_TRY(sg_submit(stream, op));
    if (!pooled) {
        return CUDA_SUCCESS;
    }
    range = sg_pool_range_remove(address);
    if (!range) { /* two threads freed it */
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_pool_free(range, stream);
    return CUDA_SUCCESS;
}
