#include "shim/pool/pool_alloc.h"

#include <time.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"
#include "shim/gate/streams.h"
#include "shim/mem/accounting.h"
#include "shim/mem/alloc.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/release.h"
#include "shim/pool/heap.h"
#include "shim/pool/stream_fence.h"
#include "shim/pool/trim.h"

#define LARGEST_STEP (32ull << 20) /* a pool of a big card grows by this, as the driver's do */
#define STEPS_OF_MEMORY 512u       /* on smaller ones less */
#define PATIENCE_NS 1000000000ull  /* for work that has yet to free what is needed now */
#define PAUSE_NS 50000

static uint64_t step_of(const struct device *device)
{
    uint64_t step = GRANULE;
    while (step < LARGEST_STEP && step * STEPS_OF_MEMORY <= device->total_bytes) {
        step *= 2;
    }
    return step;
}

static CUresult use(struct pool *pool, struct piece *piece, uint64_t size, size_t bytes,
                    CUdeviceptr *pointer)
{
    if (heap_take(&pool->heap, piece, size, bytes) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->used += size;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    *pointer = piece->base;
    return CUDA_SUCCESS;
}

/* Uses a piece that is free, or becomes free in the order of the stream. */
static CUresult reuse(struct pool *pool, uint64_t size, size_t bytes, struct stream_fence *fence,
                      CUdeviceptr *pointer)
{
    struct piece *piece = heap_find(&pool->heap, size, fence, false);
    if (!piece && pool->used < pool->reserved && stream_fences_poll()) {
        heap_join(&pool->heap, pool->segments);
        piece = heap_find(&pool->heap, size, fence, false);
    }
    return piece ? use(pool, piece, size, bytes, pointer) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Uses a piece that another stream has yet to come past, and makes this stream wait for it. */
static CUresult reuse_later(struct pool *pool, uint64_t size, size_t bytes,
                            struct stream_fence *fence, CUstream stream, CUdeviceptr *pointer)
{
    int allowed = 0;
    DRIVER(cuMemPoolGetAttribute)(pool->handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                                  &allowed);
    struct piece *piece = allowed ? heap_find(&pool->heap, size, fence, true) : NULL;
    if (!piece || (piece->fence && piece->fence != fence &&
                   stream_fence_await(piece->fence, stream) != CUDA_SUCCESS)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return use(pool, piece, size, bytes, pointer);
}

static bool is_without_contexts(const struct device *device)
{
    uint32_t place = CONTEXTS_ALL;
    struct device *own = NULL;
    if (device_next_context(device, &place)) {
        return false;
    }
    /* A context that was made behind our back is known after this. */
    return device_check() != CUDA_SUCCESS || device_current(&own) != CUDA_SUCCESS || own != device;
}

/* With pools_lock: gives a new extent to a segment, whose memory outlives its context. False: the
 * context of the allocating thread, or the last context of the device, is gone. */
static bool adopt(struct extent *extent, struct segment *segment, bool alone)
{
    LOCK_SCOPE(&extent_lock);
    bool may = segment && !alone && !extent->orphan;
    extent->making = !may; /* else a context that ends meanwhile would take it along */
    extent->context = NULL;
    if (may) {
        extent->use = EXTENT_OF_POOL;
        extent->segment = segment;
    }
    if (segment && !may) {
        heap_drop_segment(segment);
    }
    return may;
}

/* A new segment, of which the first piece is taken at once. Without the lock. */
static CUresult grow(struct pool *pool, struct device *device, uint64_t span, uint64_t size,
                     size_t bytes, CUdeviceptr *pointer)
{
    struct extent *extent;
    lock_take(&pools_lock);
    bool fits = !pool->most || pool->reserved + span <= pool->most;
    pool->reserved += fits ? span : 0;
    pool->step = step_of(device);
    lock_drop(&pools_lock);
    if (!fits) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = alloc_extent(device, span, &extent);
    bool alone = result == CUDA_SUCCESS && is_without_contexts(device);
    lock_take(&pools_lock);
    struct segment *segment =
        result == CUDA_SUCCESS ? heap_add_segment(&pool->heap, pool, extent) : NULL;
    if (result == CUDA_SUCCESS && adopt(extent, segment, alone)) {
        uint64_t now = pool->reserved;
        segment->next = pool->segments;
        pool->segments = segment;
        pool->reserved_high = now > pool->reserved_high ? now : pool->reserved_high;
        use(pool, segment->first, size, bytes, pointer);
        lock_drop(&pools_lock);
        return CUDA_SUCCESS;
    }
    pool->reserved -= span;
    lock_drop(&pools_lock);
    if (result == CUDA_SUCCESS) {
        lock_take(&extent_lock);
        bool orphan = alone || extent->orphan;
        extent_retire(extent);
        lock_drop(&extent_lock);
        release_extent(extent);
        accounting_detach_unused(device);
        return orphan ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult grow_somehow(struct pool *pool, struct device *device, uint64_t size, size_t bytes,
                             CUdeviceptr *pointer)
{
    uint64_t step = step_of(device);
    uint64_t span = (size + step - 1) / step * step;
    uint64_t least = (size + GRANULE - 1) / GRANULE * GRANULE;
    CUresult result = grow(pool, device, span, size, bytes, pointer);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && least < span) {
        result = grow(pool, device, least, size, bytes, pointer);
    }
    return result;
}

/* Waits until nothing that was freed on the device is still in use, but not for ever: work that
 * itself waits for the calling thread would never end. */
static void await_frees(const struct device *device)
{
    uint64_t began = now_ns();
    struct timespec pause = {0, PAUSE_NS};
    bool pending = true;
    while (pending && now_ns() - began < PATIENCE_NS) {
        pending = false;
        lock_take(&streams_lock);
        lock_take(&pools_lock);
        stream_fences_poll_uncaptured();
        for (struct pool *pool = pools; pool && !pending; pool = pool->next) {
            pending = pool->ordinal == device->ordinal && heap_is_pending(pool->segments);
        }
        lock_drop(&pools_lock);
        lock_drop(&streams_lock);
        if (pending) {
            nanosleep(&pause, NULL);
        }
    }
}

/* The device of a pool, attached: a stream of it exists, or of one that may access it. */
static CUresult device_of(const struct pool *pool, struct device **device)
{
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        if (d->ordinal == pool->ordinal) {
            *device = d;
            return CUDA_SUCCESS;
        }
    }
    CUresult result = device_current(device);
    return result == CUDA_SUCCESS && (*device)->ordinal != pool->ordinal ? CUDA_ERROR_INVALID_DEVICE
                                                                         : result;
}

CUresult pool_allocate(struct pool *pool, CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    struct device *device;
    struct stream_fence *fence;
    uint64_t size = (bytes + HEAP_UNIT - 1) / HEAP_UNIT * HEAP_UNIT;
    if (!pointer || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    lock_take(&pools_lock);
    CUresult result = stream_fence_of(stream, &fence);
    if (result == CUDA_SUCCESS && size >= bytes) {
        result = reuse(pool, size, bytes, fence, pointer);
    }
    lock_drop(&pools_lock);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        return result;
    }
    result = device_of(pool, &device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (size < bytes || !alloc_is_allowed(device, size)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = grow_somehow(pool, device, size, bytes, pointer);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        struct mw_slot *slot = gate_enter();
        lock_take(&pools_lock);
        result = reuse_later(pool, size, bytes, fence, stream, pointer);
        lock_drop(&pools_lock);
        gate_leave(slot);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        await_frees(device);
        lock_take(&pools_lock);
        heap_join(&pool->heap, pool->segments);
        result = reuse(pool, size, bytes, fence, pointer);
        lock_drop(&pools_lock);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY && trim_reclaim(device)) {
        result = grow_somehow(pool, device, size, bytes, pointer);
    }
    return result;
}
