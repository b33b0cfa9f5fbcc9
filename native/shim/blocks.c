#include "shim/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/arena.h"
#include "shim/managed.h"
#include "shim/real.h"

struct lock blocks_lock;
static struct block **table;
static size_t count;
static size_t room;

CUresult block_make(struct block **block, struct device *device, uint64_t bytes)
{
    uint64_t span = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    uint64_t piece = device->chunk_bytes < GRANULE ? GRANULE : device->chunk_bytes;
    uint32_t chunks = (uint32_t)((span + piece - 1) / piece);
    struct block *made = calloc(1, sizeof(*made) + chunks * sizeof(made->chunks[0]));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = REAL(cuMemAddressReserve)(&made->base, span, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    made->bytes = bytes;
    made->span = span;
    made->device = device;
    made->chunk_count = chunks;
    REAL(cuCtxGetCurrent)(&made->context);
    for (uint32_t i = 0; i < chunks; i++) {
        uint64_t left = span - (uint64_t)i * piece;
        made->chunks[i].bytes = left < piece ? left : piece;
    }
    *block = made;
    return CUDA_SUCCESS;
}

CUdeviceptr block_end(const struct block *block)
{
    return block->base + (block->managed ? block->bytes : block->span);
}

CUdeviceptr block_at(const struct block *block, uint32_t chunk)
{
    return block->base + (uint64_t)chunk * block->chunks[0].bytes;
}

CUresult block_map(struct block *block)
{
    for (uint32_t i = 0; i < block->chunk_count; i++) {
        struct chunk *chunk = &block->chunks[i];
        if (chunk->present) {
            continue;
        }
        CUresult result = chunk_map(chunk, block_at(block, i), block->device->ordinal);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        block->device->resident_bytes += chunk->bytes;
    }
    return CUDA_SUCCESS;
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
            chunk_unmap(chunk, block_at(block, i));
            resident += chunk->bytes;
        }
        if (chunk->host) {
            arena_give_back(chunk->host, chunk->bytes);
        }
    }
    block->device->resident_bytes -= resident;
    REAL(cuMemAddressFree)(block->base, block->span);
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
    if (at > 0 && table[at - 1] == block) {
        memmove(table + at - 1, table + at, (count - at) * sizeof(struct block *));
        count--;
    }
}

struct block *blocks_find(CUdeviceptr pointer)
{
    size_t at = above(pointer);
    if (at == 0 || pointer >= block_end(table[at - 1])) {
        return NULL;
    }
    return table[at - 1];
}

size_t blocks_count(void) { return count; }

struct block *blocks_get(size_t index) { return table[index]; }

void blocks_after_fork(void)
{
    count = 0;
    atomic_store(&blocks_lock.word, 0);
}
