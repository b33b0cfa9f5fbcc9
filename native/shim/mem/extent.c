#include "shim/mem/extent.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/driver.h"
#include "shim/mem/upcalls.h"

#define PIECES 16         /* of an allocation, at least, unless they would be too small */
#define SMALLEST_PART 8   /* of the largest piece: below, the calls cost more than the copy */
#define ALONE_PART 2      /* of the largest piece: an allocation up to this has one */
#define MAPPED_AT_ONCE 16 /* chunks, until other threads get the lock */

struct lock extent_lock = LOCK_INIT(LOCK_EXTENTS);
atomic_bool extents_damaged;
_Atomic uint64_t extents_version = 1; /* of what was never found: 0 */
static uint64_t births;
static _Atomic uint32_t endings; /* ends of moves: threads that wait for one sleep here */

uint64_t extent_next_sequence(void) { return __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED); }

/* The size of an allocation's chunks. A large allocation has large ones, so that there are few
 * calls. A smaller one has smaller ones, so that it streams: while one chunk leaves, the memory of
 * the one before is reused. */
static uint64_t piece_bytes(uint64_t span, uint64_t largest)
{
    uint64_t piece = largest / SMALLEST_PART > GRANULE ? largest / SMALLEST_PART : GRANULE;
    while (piece < largest && piece < span / PIECES) {
        piece *= 2;
    }
    return piece < largest ? piece : largest < GRANULE ? GRANULE : largest;
}

uint64_t extent_span(uint64_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

/* The calls for one chunk take as long as the driver's own allocation. So small allocations, of
 * which there are many, have one chunk. */
static uint64_t cut_bytes(uint64_t span, uint64_t largest, enum cut cut)
{
    bool whole = cut == CUT_WHOLE || (cut == CUT_PLAIN && span <= largest / ALONE_PART);
    return whole ? span : piece_bytes(span, largest);
}

uint32_t extent_chunks(const struct device *device, uint64_t bytes, enum cut cut)
{
    uint64_t span = extent_span(bytes);
    uint64_t piece = cut_bytes(span, device->chunk_bytes, cut);
    return (uint32_t)((span + piece - 1) / piece);
}

/* ---- the kind with addresses of its own ---- */

static CUdeviceptr placed_address(const struct extent *extent, uint32_t chunk)
{
    return extent->base + (uint64_t)chunk * extent->chunks[0].bytes;
}

static CUresult placed_ensure_mapped(struct extent *extent, uint32_t chunk)
{
    (void)extent;
    (void)chunk;
    return CUDA_SUCCESS;
}

static uint32_t placed_map(struct extent *extent, uint32_t first, uint32_t count, CUresult *result)
{
    return chunks_map(&extent->chunks[first], count, placed_address(extent, first),
                      extent->device->ordinal, extent->device->peers, result);
}

static void placed_unmap(struct extent *extent, uint32_t chunk)
{
    chunk_unmap(&extent->chunks[chunk], placed_address(extent, chunk));
}

static void placed_release(struct extent *extent)
{
    DRIVER(cuMemAddressFree)(extent->base, extent->span);
}

static const struct extent_ops placed_ops = {
    .kind = EXTENT_PLACED,
    .address = placed_address,
    .ensure_mapped = placed_ensure_mapped,
    .map = placed_map,
    .unmap = placed_unmap,
    .release = placed_release,
};

static struct extent *make(const struct extent_ops *ops, struct device *device, uint64_t bytes,
                           enum cut cut)
{
    uint64_t span = extent_span(bytes);
    uint64_t piece = cut_bytes(span, device->chunk_bytes, cut);
    uint32_t chunks = (uint32_t)((span + piece - 1) / piece);
    struct extent *made = calloc(1, sizeof(*made) + chunks * sizeof(made->chunks[0]));
    if (!made) {
        return NULL;
    }
    made->bytes = bytes;
    made->span = span;
    made->device = device;
    made->chunk_count = chunks;
    made->ops = ops;
    made->sequence = extent_next_sequence();
    for (uint32_t i = 0; i < chunks; i++) {
        uint64_t left = span - (uint64_t)i * piece;
        made->chunks[i].bytes = left < piece ? left : piece;
    }
    return made;
}

CUresult extent_make(struct extent **extent, struct device *device, uint64_t bytes, enum cut cut)
{
    struct extent *made = make(&placed_ops, device, bytes, cut);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = DRIVER(cuMemAddressReserve)(&made->base, made->span, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    DRIVER(cuCtxGetCurrent)(&made->context);
    *extent = made;
    return CUDA_SUCCESS;
}

CUresult extent_make_unplaced(struct extent **extent, const struct extent_ops *ops,
                              struct device *device, uint64_t bytes, bool whole)
{
    *extent = make(ops, device, bytes, whole ? CUT_WHOLE : CUT_FINE);
    return *extent ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUdeviceptr extent_end(const struct extent *extent)
{
    return extent->base + (extent_is_managed(extent) ? extent->bytes : extent->span);
}

CUresult extent_map_chunk(struct extent *extent, uint32_t chunk)
{
    CUresult result;
    if (extent->ops->map(extent, chunk, 1, &result) == 1) {
        extent->chunks[chunk].scanned_turn = 0;
    }
    return result;
}

/* Maps the neighbouring chunks from `first` on that lack memory, up to `most`. Returns how many
 * have memory now. */
static uint32_t map_run(struct extent *extent, uint32_t first, uint32_t most, CUresult *result)
{
    uint32_t run = 0;
    while (run < most && first + run < extent->chunk_count &&
           chunk_lacks_memory(&extent->chunks[first + run])) {
        run++;
    }
    return extent->ops->map(extent, first, run, result);
}

CUresult extent_map(struct extent *extent, uint32_t most, bool *whole)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t mapped = 0;
    for (uint32_t i = 0; i < extent->chunk_count && mapped < most;) {
        if (!chunk_lacks_memory(&extent->chunks[i])) {
            i++;
            continue;
        }
        uint32_t run = map_run(extent, i, most - mapped, &result);
        for (uint32_t k = 0; k < run; k++) {
            struct chunk *chunk = &extent->chunks[i + k];
            chunk_transition(chunk, CHUNK_RESIDENT);
            chunk->scanned_turn = 0;
            extent->device->resident_bytes += chunk->bytes;
        }
        if (result != CUDA_SUCCESS) {
            break;
        }
        mapped += run;
        i += run;
    }
    *whole = mapped < most;
    return result;
}

/* The lock is free between steps: mapping many chunks takes long, and others free memory. */
CUresult extent_map_in_steps(struct extent *extent)
{
    CUresult result;
    bool whole = false;
    lock_take(&extent_lock);
    extent_hold_moves(extent);
    do {
        result = extent_map(extent, MAPPED_AT_ONCE, &whole);
        lock_drop(&extent_lock);
        lock_take(&extent_lock);
    } while (result == CUDA_SUCCESS && !whole);
    extent_release_moves(extent);
    lock_drop(&extent_lock);
    return result;
}

/* Wakes the threads that wait for moves to end. */
static void wake_waiters(void)
{
    atomic_fetch_add(&endings, 1);
    futex_wake_all(&endings);
}

void extent_begin_busy(struct extent *extent, uint32_t chunk)
{
    extent->chunks[chunk].busy = true;
    extent->busy++;
}

void extent_end_busy(struct extent *extent, uint32_t chunk)
{
    extent->chunks[chunk].busy = false;
    extent->busy--;
    if ((extent->retiring || extent->move_locks) && extent->busy == 0) {
        wake_waiters();
    }
}

void extent_release_moves(struct extent *extent)
{
    extent->move_locks--;
    if (extent->retiring) {
        wake_waiters();
    }
}

static void await(const struct extent *extent, bool holders)
{
    lock_take(&extent_lock);
    while (extent->busy || (holders && extent->move_locks)) {
        uint32_t seen = atomic_load(&endings);
        lock_drop(&extent_lock);
        futex_wait(&endings, seen, -1);
        lock_take(&extent_lock);
    }
    lock_drop(&extent_lock);
}

void extent_await_moves(const struct extent *extent) { await(extent, false); }

void extent_await_holders(const struct extent *extent) { await(extent, true); }

void extent_retire(struct extent *extent)
{
    extent->retiring = true;
    extents_changed();
}

uint32_t extent_charge_flags(const struct extent *extent)
{
    return (extent_is_managed(extent) ? MW_ALLOC_MANAGED : 0) |
           (extent->pins ? MW_ALLOC_PINNED : 0);
}

void extent_unmap(struct extent *extent)
{
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        DRIVER(cuMemUnmap)(extent_address(extent, i), extent->chunks[i].bytes);
        chunk_transition(&extent->chunks[i], CHUNK_UNTOUCHED);
        extent->chunks[i].content = CHUNK_DATA;
        extent->chunks[i].changes = 0;
        if (extent->chunks[i].host) {
            mem_upcalls.host_free(extent->chunks[i].host, extent->chunks[i].bytes);
            extent->chunks[i].host = NULL;
        }
        extent->device->resident_bytes -= extent->chunks[i].bytes;
    }
}

uint64_t extent_destroy(struct extent *extent)
{
    uint64_t resident = 0;
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        struct chunk *chunk = &extent->chunks[i];
        if (chunk_has_memory(chunk)) {
            extent_unmap_chunk(extent, i);
            resident += chunk->bytes;
        } else if (chunk->handle) {
            DRIVER(cuMemRelease)(chunk->handle);
        }
        if (chunk->host) {
            mem_upcalls.host_free(chunk->host, chunk->bytes);
        }
    }
    extent->device->resident_bytes -= resident;
    extent->ops->release(extent);
    free(extent);
    return resident;
}

void extent_after_fork(void) { lock_after_fork(&extent_lock); }
