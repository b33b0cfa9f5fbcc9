#include "shim/pool/pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/address_info.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/graph_memory.h"
#include "shim/mem/graph_reuse.h"
#include "shim/mem/unevictable.h"
#include "shim/pool/heap.h"
#include "shim/pool/stream_fence.h"
#include "shim/pool/trim.h"

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
    const struct extent *extent = extent_table_find(pointer);
    return extent && extent->use == EXTENT_OF_POOL ? extent->segment : NULL;
}

bool pool_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes)
{
    LOCK_SCOPE(&pools_lock);
    const struct piece *piece = heap_piece_at(pointer); /* most callers name its beginning */
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
        graph_memory_forget_device(device);
        unevictable_forget_device(device);
    }
}

void pools_after_fork(void)
{
    trim_after_fork();
    stream_fences_after_fork();
    unevictable_after_fork();
    graph_memory_after_fork();
    graph_reuse_after_fork();
    heap_after_fork();
}
