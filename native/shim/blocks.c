#include "shim/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/allocation.h"
#include "shim/arena.h"
#include "shim/charge.h"
#include "shim/managed.h"
#include "shim/real.h"

#define PIECES 16       /* at least, of an allocation, unless they would be too small */
#define SMALLEST_PART 8 /* of the largest piece: below, the calls cost more than the copy */
#define ALONE_PART 2    /* of the largest piece: an allocation up to this has one */

struct lock blocks_lock;
static struct block **table;
static size_t count;
static size_t room;
static uint64_t births;
static _Atomic uint32_t endings; /* of moves: whoever waits for one sleeps on it */

uint64_t blocks_number(void) { return __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED); }

/* What an allocation is backed with: large pieces for a large one, so that there are few calls; for
 * a smaller one smaller pieces, so that it streams: while one leaves, the one before is reused. */
static uint64_t piece_bytes(uint64_t span, uint64_t largest)
{
    uint64_t piece = largest / SMALLEST_PART > GRANULE ? largest / SMALLEST_PART : GRANULE;
    while (piece < largest && piece < span / PIECES) {
        piece *= 2;
    }
    return piece < largest ? piece : largest < GRANULE ? GRANULE : largest;
}

uint64_t block_span(uint64_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

/* The calls for one chunk take as long as the driver's own allocation, so those of which there are many
 * have one. */
static uint64_t piece_of(uint64_t span, uint64_t largest, enum cut cut)
{
    bool whole = cut == CUT_WHOLE || (cut == CUT_PLAIN && span <= largest / ALONE_PART);
    return whole ? span : piece_bytes(span, largest);
}

uint32_t block_chunks(const struct device *device, uint64_t bytes, enum cut cut)
{
    uint64_t span = block_span(bytes);
    uint64_t piece = piece_of(span, device->chunk_bytes, cut);
    return (uint32_t)((span + piece - 1) / piece);
}

static struct block *make(struct device *device, uint64_t bytes, enum cut cut)
{
    uint64_t span = block_span(bytes);
    uint64_t piece = piece_of(span, device->chunk_bytes, cut);
    uint32_t chunks = (uint32_t)((span + piece - 1) / piece);
    struct block *made = calloc(1, sizeof(*made) + chunks * sizeof(made->chunks[0]));
    if (!made) {
        return NULL;
    }
    made->bytes = bytes;
    made->span = span;
    made->device = device;
    made->chunk_count = chunks;
    made->born = blocks_number();
    for (uint32_t i = 0; i < chunks; i++) {
        uint64_t left = span - (uint64_t)i * piece;
        made->chunks[i].bytes = left < piece ? left : piece;
    }
    return made;
}

CUresult block_make(struct block **block, struct device *device, uint64_t bytes, enum cut cut)
{
    struct block *made = make(device, bytes, cut);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = REAL(cuMemAddressReserve)(&made->base, made->span, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    REAL(cuCtxGetCurrent)(&made->context);
    *block = made;
    return CUDA_SUCCESS;
}

CUresult block_make_apart(struct block **block, struct device *device, uint64_t bytes, bool whole)
{
    *block = make(device, bytes, whole ? CUT_WHOLE : CUT_FINE);
    return *block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUdeviceptr block_beyond(const struct block *block)
{
    return block->base + (block->managed ? block->bytes : block->span);
}

CUdeviceptr block_at(const struct block *block, uint32_t chunk)
{
    if (block->allocation) {
        return allocation_at(block, chunk);
    }
    return block->base + (uint64_t)chunk * block->chunks[0].bytes;
}

CUresult block_reach(struct block *block, uint32_t chunk)
{
    return block->allocation ? allocation_reach(block, chunk) : CUDA_SUCCESS;
}

CUresult block_back(struct block *block, uint32_t chunk)
{
    CUresult result;
    if (block->allocation) {
        return allocation_back(block, chunk);
    }
    chunks_map(&block->chunks[chunk], 1, block_at(block, chunk), block->device->ordinal,
               block->device->peers, &result);
    return result;
}

void block_unback(struct block *block, uint32_t chunk)
{
    if (block->allocation) {
        allocation_unback(block, chunk);
    } else {
        chunk_unmap(&block->chunks[chunk], block_at(block, chunk));
    }
}

static bool is_missing(const struct chunk *chunk) { return !chunk->present && !chunk->hollow; }

/* As many neighbouring ones from `first` on as are missing, up to `most`; how many are present now. */
static uint32_t map_run(struct block *block, uint32_t first, uint32_t most, CUresult *result)
{
    uint32_t run = 0;
    while (run < most && first + run < block->chunk_count &&
           is_missing(&block->chunks[first + run])) {
        run++;
    }
    if (block->allocation) {
        *result = block_back(block, first);
        return *result == CUDA_SUCCESS;
    }
    return chunks_map(&block->chunks[first], run, block_at(block, first), block->device->ordinal,
                      block->device->peers, result);
}

CUresult block_map(struct block *block, uint32_t most, bool *whole)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t mapped = 0;
    for (uint32_t i = 0; i < block->chunk_count && mapped < most;) {
        if (!is_missing(&block->chunks[i])) {
            i++;
            continue;
        }
        uint32_t run = map_run(block, i, most - mapped, &result);
        for (uint32_t k = 0; k < run; k++) {
            block->device->resident_bytes += block->chunks[i + k].bytes;
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

void block_begin(struct block *block, uint32_t chunk)
{
    block->chunks[chunk].busy = true;
    block->busy++;
}

void block_end(struct block *block, uint32_t chunk)
{
    block->chunks[chunk].busy = false;
    block->busy--;
    if ((block->leaves || block->holds) && block->busy == 0) {
        atomic_fetch_add(&endings, 1);
        futex_wake_all(&endings);
    }
}

static void await(const struct block *block, bool holds)
{
    while (block->busy || (holds && block->holds)) {
        uint32_t seen = atomic_load(&endings);
        lock_drop(&blocks_lock);
        futex_wait(&endings, seen, -1);
        lock_take(&blocks_lock);
    }
}

void block_hold(struct block *block) { block->holds++; }

void block_let_go(struct block *block)
{
    block->holds--;
    if (block->leaves) {
        atomic_fetch_add(&endings, 1);
        futex_wake_all(&endings);
    }
}

void block_await(struct block *block)
{
    block_hold(block);
    await(block, false);
    block_let_go(block);
}

void block_retire(struct block *block)
{
    block->leaves = true;
    await(block, true);
}

void block_keep(struct block *block)
{
    if (!block->stays && !block->managed) {
        block->stays = true;
        charge_keep(block->device, block->span);
    }
}

uint32_t block_charge(const struct block *block)
{
    return (block->managed ? MW_ALLOC_MANAGED : 0) | (block->stays ? MW_ALLOC_PINNED : 0);
}

void block_unmap(struct block *block)
{
    for (uint32_t i = 0; i < block->chunk_count; i++) {
        REAL(cuMemUnmap)(block_at(block, i), block->chunks[i].bytes);
        block->chunks[i].present = block->chunks[i].zeros = false;
        block->device->resident_bytes -= block->chunks[i].bytes;
    }
}

uint64_t block_destroy(struct block *block)
{
    uint64_t resident = 0;
    if (block->managed) {
        managed_release(block);
        return 0;
    }
    for (uint32_t i = 0; i < block->chunk_count; i++) {
        struct chunk *chunk = &block->chunks[i];
        if (chunk->present) {
            block_unback(block, i);
            resident += chunk->bytes;
        } else if (chunk->handle) {
            REAL(cuMemRelease)(chunk->handle);
        }
        if (chunk->host) {
            arena_give_back(chunk->host, chunk->bytes);
        }
    }
    block->device->resident_bytes -= resident;
    if (block->allocation) {
        allocation_end(block);
    } else {
        REAL(cuMemAddressFree)(block->base, block->span);
    }
    free(block);
    return resident;
}

/* Index of the first block whose base is above `pointer`. */
static size_t above(CUdeviceptr pointer)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle]->base <= pointer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int blocks_insert(struct block *block)
{
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        struct block **grown = realloc(table, more * sizeof(struct block *));
        if (!grown) {
            return -ENOMEM;
        }
        table = grown;
        room = more;
    }
    size_t at = above(block->base);
    memmove(table + at + 1, table + at, (count - at) * sizeof(struct block *));
    table[at] = block;
    count++;
    return 0;
}

void blocks_remove(struct block *block)
{
    size_t at = above(block->base);
    while (at > 0 && table[at - 1] != block && table[at - 1]->base == block->base) {
        at--; /* those without an address of their own come first, in any order */
    }
    if (at > 0 && table[at - 1] == block) {
        memmove(table + at - 1, table + at, (count - at) * sizeof(struct block *));
        count--;
    }
}

struct block *blocks_find(CUdeviceptr pointer)
{
    size_t at = above(pointer);
    struct block *block = at ? table[at - 1] : NULL;
    bool inside = block && block->base && pointer < block_beyond(block) && !block->leaves;
    return inside ? block : NULL;
}

size_t blocks_count(void) { return count; }

struct block *blocks_get(size_t index) { return table[index]; }

void blocks_after_fork(void)
{
    count = 0;
    allocation_after_fork();
    atomic_store(&blocks_lock.word, 0);
}
