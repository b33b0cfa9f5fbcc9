#include "simgpu/mem/pool_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/pool_piece.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"
#include "simgpu/stream/stream_queue.h"

#define UNIT 512u
#define PATIENCE_NS (1000 * SG_US * 1000)
#define POLL_NS (50 * SG_US)
#define LARGEST_STEP (32ull << 20) /* the smallest step by which a pool of a big card grows */

static uint64_t step_bytes(unsigned gpu)
{
    uint64_t step = SG_BLOCK_BYTES;
    while (step < LARGEST_STEP && step * 512 <= sg_profile_of(gpu)->memory_bytes) {
        step *= 2;
    }
    return step;
}

/* ---- segments; the pool is locked ---- */

static CUresult grow(CUmemoryPool pool, uint64_t size)
{
    uint64_t step = step_bytes(pool->gpu);
    size = (size + step - 1) / step * step;
    if (pool->props.maxSize && pool->reserved_bytes + size > pool->props.maxSize) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sg_segment *segment = calloc(1, sizeof *segment);
    struct sg_piece *piece = calloc(1, sizeof *piece);
    CUresult result = segment && piece ? sg_chunk_create(&segment->chunk, pool->gpu, size, NULL)
                                       : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        segment->base = sg_addresses_alloc(size, 0, 0);
        result = segment->base
                     ? sg_chunk_map(segment->chunk, segment->base, size, 0, PROT_READ | PROT_WRITE)
                     : CUDA_ERROR_OUT_OF_MEMORY;
        if (result && segment->base) {
            sg_addresses_free(segment->base, size);
        }
        if (result) {
            sg_chunk_unref(segment->chunk);
        }
    }
    if (result) {
        free(segment);
        free(piece);
        return result;
    }
    segment->pool = pool;
    segment->size = size;
    segment->first = piece;
    piece->segment = segment;
    piece->base = segment->base;
    piece->size = size;
    segment->next = pool->segments;
    pool->segments = segment;
    pool->reserved_bytes += size;
    if (pool->reserved_bytes > pool->reserved_high) {
        pool->reserved_high = pool->reserved_bytes;
    }
    sg_pay(sg_profile_of(pool->gpu)->alloc_ns);
    return CUDA_SUCCESS;
}

/* Removes the segment that `at` points to and frees its memory. */
static void drop(CUmemoryPool pool, struct sg_segment **at)
{
    struct sg_segment *gone = *at;
    *at = gone->next;
    for (struct sg_piece *piece = gone->first, *next; piece; piece = next) {
        next = piece->next;
        sg_piece_release_stream(piece);
        free(piece);
    }
    sg_chunk_unmap(gone->chunk, gone->base, gone->size, 0);
    sg_address_clear(gone->base, gone->size);
    sg_addresses_free(gone->base, gone->size);
    sg_chunk_unref(gone->chunk);
    pool->reserved_bytes -= gone->size;
    free(gone);
    sg_pay(sg_profile_of(pool->gpu)->free_ns);
}

static void trim(CUmemoryPool pool, uint64_t keep)
{
    if (pool->reserved_bytes <= keep) {
        return;
    }
    sg_pieces_join(pool);
    for (struct sg_segment **at = &pool->segments; *at && pool->reserved_bytes > keep;) {
        struct sg_piece *first = (*at)->first;
        /* As in NVIDIA's driver, at least `keep` bytes stay. */
        if (!first->used && !first->next && !first->stream &&
            pool->reserved_bytes - (*at)->size >= keep) {
            drop(pool, at);
        } else {
            at = &(*at)->next;
        }
    }
}

void sg_pool_trim(CUmemoryPool pool, uint64_t keep)
{
    pthread_mutex_lock(&pool->lock);
    trim(pool, keep);
    pthread_mutex_unlock(&pool->lock);
}

void sg_pools_synchronised(void)
{
    for (CUmemoryPool pool = sg_pool_next(NULL); pool; pool = sg_pool_next(pool)) {
        pthread_mutex_lock(&pool->lock);
        if (pool->reserved_bytes > pool->threshold_bytes &&
            pool->used_bytes < pool->reserved_bytes) {
            trim(pool, pool->threshold_bytes);
        }
        pthread_mutex_unlock(&pool->lock);
    }
}

/* ---- allocating and freeing ---- */

static int has_pending(CUmemoryPool pool)
{
    int pending = 0;
    pthread_mutex_lock(&pool->lock);
    for (struct sg_segment *segment = pool->segments; segment; segment = segment->next) {
        for (struct sg_piece *piece = segment->first; piece; piece = piece->next) {
            pending |= !piece->used && !sg_piece_is_ready(piece);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return pending;
}

/* Gives back all unused pool memory of the GPU. It waits for memory that is about to be free, with a limit,
 * because work may wait for the calling thread. */
static void trim_all(unsigned gpu)
{
    uint64_t began = sg_now_ns();
    for (CUmemoryPool pool = sg_pool_next(NULL); pool; pool = sg_pool_next(pool)) {
        while (pool->gpu == gpu && has_pending(pool) && sg_now_ns() - began < PATIENCE_NS) {
            sg_sleep_until(sg_now_ns() + POLL_NS);
        }
        if (pool->gpu == gpu && pool->reserved_bytes) {
            sg_pool_trim(pool, 0);
        }
    }
}

static CUresult find_piece(CUmemoryPool pool, uint64_t size, CUstream stream,
                           struct sg_piece **found)
{
    sg_pieces_join(pool);
    *found = sg_piece_best_fit(pool, size, stream, 0);
    if (*found) {
        return CUDA_SUCCESS;
    }
    CUresult result = grow(pool, size);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        *found = pool->may_reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES]
                     ? sg_piece_best_fit(pool, size, stream, 1)
                     : NULL;
        if (*found) {
            return CUDA_SUCCESS;
        }
    }
    *found = result ? NULL : sg_piece_best_fit(pool, size, stream, 0);
    return result;
}

static CUresult take(CUmemoryPool pool, size_t bytes, CUstream stream, struct sg_range *range)
{
    struct sg_piece *piece;
    uint64_t size = (bytes + UNIT - 1) / UNIT * UNIT;
    SG_TRY(find_piece(pool, size, stream, &piece));
    if (sg_piece_cut(piece, size) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (piece->stream && piece->stream != stream) {
        uint64_t number;
        SG_TRY(sg_capture_forbids_legacy(stream));
        struct sg_op *wait = sg_op_new(&sg_kind_wait);
        sg_op_wait_for(wait, piece->stream, piece->number);
        SG_TRY(sg_stream_enqueue(stream, wait, &number));
    }
    sg_piece_release_stream(piece);
    piece->used = 1;
    pool->used_bytes += size;
    if (pool->used_bytes > pool->used_high) {
        pool->used_high = pool->used_bytes;
    }
    *range = (struct sg_range){.base = piece->base,
                               .size = bytes,
                               .span = size,
                               .kind = SG_RANGE_POOLED,
                               .gpu = pool->gpu,
                               .chunk = piece->segment->chunk,
                               .offset = piece->base - piece->segment->base,
                               .piece = piece,
                               .pool = pool};
    return CUDA_SUCCESS;
}

CUresult sg_pool_alloc(CUmemoryPool pool, CUdeviceptr *out, size_t bytes, CUstream stream)
{
    struct sg_range *range;
    if (!out || !bytes || pool->is_imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > sg_profile_of(pool->gpu)->memory_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&pool->lock);
    CUresult result = take(pool, bytes, stream, range);
    pthread_mutex_unlock(&pool->lock);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        trim_all(pool->gpu);
        pthread_mutex_lock(&pool->lock);
        result = take(pool, bytes, stream, range);
        pthread_mutex_unlock(&pool->lock);
    }
    if (result) {
        free(range);
        return result;
    }
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    *out = range->base;
    return CUDA_SUCCESS;
}

struct sg_range *sg_pool_range_remove(CUdeviceptr address)
{
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    if (range && range->kind == SG_RANGE_POOLED && range->base == address) {
        sg_ranges_remove(range);
    } else {
        range = NULL;
    }
    sg_ranges_unlock();
    return range;
}

static void unmap_imported(struct sg_range *range)
{
    uint64_t base = range->base & ~(uint64_t)4095;
    sg_chunk_unmap(range->chunk, base, range->span, range->offset);
    sg_address_clear(base, range->span);
    sg_addresses_free(base, range->span);
    sg_chunk_unref(range->chunk);
    free(range);
}

void sg_pool_free(struct sg_range *range, CUstream stream)
{
    CUmemoryPool pool = range->pool;
    struct sg_piece *piece = range->piece;
    if (!piece) {
        unmap_imported(range);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    piece->used = 0;
    if (stream) {
        pthread_mutex_lock(&stream->context->lock);
        piece->number = stream->submitted;
        pthread_mutex_unlock(&stream->context->lock);
        sg_stream_ref(stream);
        piece->stream = stream;
    }
    pool->used_bytes -= piece->size;
    if (pool->dying) {
        trim(pool, 0);
    }
    pthread_mutex_unlock(&pool->lock);
    free(range);
}

void sg_pools_release_all(unsigned gpu)
{
    for (CUmemoryPool pool = sg_pool_next(NULL); pool; pool = sg_pool_next(pool)) {
        if (pool->gpu != gpu) {
            continue;
        }
        struct sg_range *range;
        do {
            sg_ranges_lock();
            range = sg_ranges_next_of_pool(pool);
            if (range) {
                sg_ranges_remove(range);
            }
            sg_ranges_unlock();
            if (range) {
                sg_pool_free(range, NULL);
            }
        } while (range);
        pthread_mutex_lock(&pool->lock);
        while (pool->segments) {
            drop(pool, &pool->segments);
        }
        pthread_mutex_unlock(&pool->lock);
    }
}
