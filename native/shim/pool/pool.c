#include "shim/pool/pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"
#include "shim/mem/accounting.h"
#include "shim/mem/address_info.h"
#include "shim/mem/alloc.h"
#include "shim/mem/extent.h"
#include "shim/mem/release.h"
#include "shim/mem/unevictable.h"
#include "shim/pool/heap.h"
#include "shim/pool/stream_fence.h"
#include "shim/pool/trim.h"

#define LARGEST_STEP (32ull << 20) /* what a pool of a big card grows by, as the driver's do */
#define STEPS_OF_MEMORY 512u       /* on smaller ones less */
#define PATIENCE_NS 1000000000ull  /* for work that has yet to free what is needed now */
#define PAUSE_NS 50000

static struct pool *find(CUmemoryPool handle)
{
    struct pool *pool = pools;
    while (pool && pool->handle != handle) {
        pool = pool->next;
    }
    return pool;
}

static struct pool *add(CUmemoryPool handle, CUdevice ordinal, uint64_t most)
{
    struct pool *made = calloc(1, sizeof(*made));
    if (made) {
        made->handle = handle;
        made->ordinal = ordinal;
        made->most = most;
        made->next = pools;
        pools = made;
    }
    return made;
}

struct pool *pool_of(CUmemoryPool handle)
{
    int count = 0;
    CUmemoryPool standard;
    if (!handle) {
        return NULL;
    }
    LOCK_SCOPE(&pools_lock);
    struct pool *pool = find(handle);
    if (pool || DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS) {
        return pool;
    }
    for (CUdevice device = 0; device < count; device++) { /* the default ones are never made */
        if (DRIVER(cuDeviceGetDefaultMemPool)(&standard, device) == CUDA_SUCCESS &&
            standard == handle) {
            return add(handle, device, 0);
        }
    }
    return NULL;
}

CUresult pool_add(CUmemoryPool handle, CUdevice ordinal, uint64_t most)
{
    LOCK_SCOPE(&pools_lock);
    return add(handle, ordinal, most) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void pool_remove(CUmemoryPool handle)
{
    struct taken taken = {0};
    lock_take(&pools_lock);
    struct pool *pool = find(handle);
    if (pool) {
        stream_fences_poll();
        pool->handle = NULL;
        pool->threshold = 0;
        trim_take(pool, 0, 0, &taken);
        trim_remove_empty();
    }
    lock_drop(&pools_lock);
    trim_give_back(&taken);
}

/* ---- allocating ---- */

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

/* The memory that there is, of pieces that are free or become so in the stream's order. */
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

/* What another stream has yet to come past: this one waits for it. */
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
    CUcontext contexts[CONTEXTS_MAX];
    struct device *own = NULL;
    if (device_contexts(device, contexts)) {
        return false;
    }
    /* One that was made behind our back is known after this. */
    return device_check() != CUDA_SUCCESS || device_current(&own) != CUDA_SUCCESS || own != device;
}

/* With pools_lock: an extent that was made becomes a segment's, whose memory outlives contexts, but not the last one, and
 * not that of whoever asks for it. Whether it did. */
static bool adopt(struct extent *extent, struct segment *segment, bool alone)
{
    LOCK_SCOPE(&extent_lock);
    bool may = segment && !alone && !extent->orphan;
    extent->making = !may; /* or a context that ends meanwhile would take it along */
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

/* Waits until nothing that was freed on the device is still in use. Work that itself waits for the
 * calling thread would never end, so not for ever. */
static void await_frees(const struct device *device)
{
    uint64_t began = now_ns();
    struct timespec pause = {0, PAUSE_NS};
    bool pending = true;
    while (pending && !gate_in_capture() && now_ns() - began < PATIENCE_NS) {
        pending = false;
        lock_take(&pools_lock);
        stream_fences_poll();
        for (struct pool *pool = pools; pool && !pending; pool = pool->next) {
            pending = pool->ordinal == device->ordinal && heap_is_pending(pool->segments);
        }
        lock_drop(&pools_lock);
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

bool pool_free(CUdeviceptr pointer, CUstream stream, bool at_once, CUresult *result)
{
    struct stream_fence *fence = NULL;
    struct taken taken = {0};
    lock_take(&pools_lock);
    struct piece *piece = heap_piece_at(pointer);
    bool found = piece != NULL;
    *result = found && !at_once ? stream_fence_of(stream, &fence) : CUDA_SUCCESS;
    if (found && *result == CUDA_SUCCESS) {
        struct pool *pool = piece->segment->pool;
        pool->used -= piece->size;
        heap_free(&pool->heap, piece, fence);
        trim_note(pool);
        if (!pool->handle) {
            stream_fences_poll();
            trim_take(pool, 0, 0, &taken);
            trim_remove_empty();
        }
    }
    lock_drop(&pools_lock);
    trim_give_back(&taken);
    return found;
}

/* ---- what programs ask ---- */

CUdevice pool_ordinal(const struct pool *pool) { return pool->ordinal; }

void pool_get(struct pool *pool, CUmemPool_attribute attribute, void *value)
{
    uint64_t bytes;
    LOCK_SCOPE(&pools_lock);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        bytes = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        bytes = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        bytes = pool->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        bytes = pool->used_high;
        break;
    default:
        return;
    }
    memcpy(value, &bytes, sizeof(bytes));
}

void pool_set(struct pool *pool, CUmemPool_attribute attribute, const void *value)
{
    LOCK_SCOPE(&pools_lock);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        memcpy(&pool->threshold, value, sizeof(pool->threshold));
        trim_note(pool);
    } else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
        pool->reserved_high = pool->reserved;
    } else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        pool->used_high = pool->used;
    }
}

/* With pools_lock. */
static struct segment *segment_of(CUdeviceptr pointer)
{
    LOCK_SCOPE(&extent_lock);
    const struct extent *extent = extent_find(pointer);
    return extent && extent->use == EXTENT_OF_POOL ? extent->segment : NULL;
}

bool pool_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes)
{
    LOCK_SCOPE(&pools_lock);
    const struct piece *piece = heap_piece_at(pointer); /* most who ask mean its beginning */
    if (!piece) {
        const struct segment *segment = segment_of(pointer);
        piece = segment ? heap_piece_of(segment, pointer) : NULL;
    }
    if (piece) {
        *base = piece->base;
        *bytes = piece->bytes;
    }
    return piece != NULL;
}

bool pool_describe(CUdeviceptr pointer, struct address_info *info)
{
    LOCK_SCOPE(&pools_lock);
    struct segment *segment = segment_of(pointer);
    struct piece *piece = segment ? heap_piece_of(segment, pointer) : NULL;
    if (!piece || pointer >= piece->base + piece->bytes) {
        return false;
    }
    *info = (struct address_info){.base = piece->base,
                                  .bytes = piece->bytes,
                                  .ordinal = segment->pool->ordinal,
                                  .managed = extent_is_managed(segment->extent),
                                  .pool = segment->pool->handle,
                                  .number = piece->sequence};
    return true;
}

/* ---- the end of streams and contexts ---- */

void pools_forget_stream(CUstream stream)
{
    LOCK_SCOPE(&pools_lock);
    stream_fences_forget_stream(stream);
}

void pools_forget_context(struct device *device, CUcontext context)
{
    struct taken taken = {0};
    lock_take(&pools_lock);
    stream_fences_forget_context(context);
    for (struct pool *pool = pools; pool && device->context_count == 0; pool = pool->next) {
        if (pool->ordinal == device->ordinal) {
            trim_take_all(pool, &taken);
        }
    }
    trim_remove_empty();
    lock_drop(&pools_lock);
    trim_give_back(&taken);
    unevictable_forget_context(context);
    if (device->context_count == 0) {
        unevictable_forget_device(device);
    }
}

void pools_after_fork(void)
{
    trim_after_fork();
    stream_fences_after_fork();
    unevictable_after_fork();
    heap_after_fork();
}
