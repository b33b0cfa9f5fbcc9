#include "simgpu/mem/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/context/context.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/managed.h"
#include "simgpu/mem/pool_memory.h"
#include "simgpu/shared/sleep.h"

#define UNIT 512u
#define UNITS (SG_BLOCK_BYTES / UNIT)
#define SMALL_BYTES (SG_BLOCK_BYTES / 2)

/* 2 MiB that small allocations of one context share. */
struct sg_block {
    struct sg_block *next;
    CUcontext context;
    uint64_t base;
    struct sg_chunk *chunk;
    unsigned used; /* units */
    uint8_t taken[UNITS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_block *blocks;

/* Addresses with memory behind them. */
static CUresult map_memory(unsigned gpu, uint64_t bytes, uint64_t *address, struct sg_chunk **chunk)
{
    CUresult result = sg_chunk_create(chunk, gpu, bytes, NULL);
    if (result) {
        return result;
    }
    *address = sg_addresses_alloc(bytes, 0, 0);
    result = *address ? sg_chunk_map(*chunk, *address, bytes, 0, PROT_READ | PROT_WRITE)
                      : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (*address) {
            sg_addresses_free(*address, bytes);
        }
        sg_chunk_unref(*chunk);
    }
    return result;
}

static void unmap_memory(uint64_t address, uint64_t bytes, struct sg_chunk *chunk)
{
    sg_chunk_unmap(chunk, address, bytes, 0);
    sg_address_clear(address, bytes);
    sg_addresses_free(address, bytes);
    sg_chunk_unref(chunk);
}

/* ---- small ones ---- */

static uint64_t take_units(struct sg_block *block, unsigned count)
{
    for (unsigned at = 0, run = 0; at < UNITS; at++) {
        run = block->taken[at] ? 0 : run + 1;
        if (run < count) {
            continue;
        }
        memset(block->taken + at + 1 - count, 1, count);
        block->used += count;
        return block->base + (uint64_t)(at + 1 - count) * UNIT;
    }
    return 0;
}

static CUresult alloc_small(CUcontext context, struct sg_range *range)
{
    unsigned count = (unsigned)((range->size + UNIT - 1) / UNIT);
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (struct sg_block *block = blocks; block && !range->base; block = block->next) {
        if (block->context == context && UNITS - block->used >= count) {
            range->base = take_units(block, count);
            range->block = range->base ? block : NULL;
        }
    }
    if (!range->base) {
        struct sg_block *block = calloc(1, sizeof *block);
        result = block ? map_memory(context->gpu, SG_BLOCK_BYTES, &block->base, &block->chunk)
                       : CUDA_ERROR_OUT_OF_MEMORY;
        if (result) {
            free(block);
        } else {
            block->context = context;
            block->next = blocks;
            blocks = block;
            range->base = take_units(block, count);
            range->block = block;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!result) {
        range->chunk = range->block->chunk;
        range->offset = range->base - range->block->base;
    }
    return result;
}

static void free_small(struct sg_range *range)
{
    struct sg_block *block = range->block;
    unsigned count = (unsigned)((range->size + UNIT - 1) / UNIT);
    pthread_mutex_lock(&lock);
    memset(block->taken + (range->base - block->base) / UNIT, 0, count);
    block->used -= count;
    if (block->used == 0) {
        struct sg_block **at = &blocks;
        while (*at != block) {
            at = &(*at)->next;
        }
        *at = block->next;
        unmap_memory(block->base, SG_BLOCK_BYTES, block->chunk);
        free(block);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- all ---- */

CUresult sg_memory_alloc(CUcontext context, CUdeviceptr *out, size_t bytes)
{
    struct sg_range *range;
    CUresult result;
    if (!out || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > sg_profile_of(context->gpu)->memory_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range = (struct sg_range){
        .size = bytes, .kind = SG_RANGE_ALLOCATED, .gpu = context->gpu, .context = context};
    if (bytes <= SMALL_BYTES) {
        result = alloc_small(context, range);
    } else {
        range->span = (bytes + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1);
        result = map_memory(context->gpu, range->span, &range->base, &range->chunk);
    }
    if (result) {
        free(range);
        return result;
    }
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    *out = range->base;
    sg_pay(sg_profile_of(context->gpu)->alloc_ns);
    return CUDA_SUCCESS;
}

static void release(struct sg_range *range)
{
    if (range->kind == SG_RANGE_POOLED) {
        sg_pool_free(range, NULL);
        return;
    }
    if (range->kind == SG_RANGE_MANAGED) {
        sg_managed_free(range);
    } else if (range->kind == SG_RANGE_HOST) {
        munmap((void *)(uintptr_t)range->base, range->span);
    } else if (range->block) {
        free_small(range);
    } else if (range->chunk) {
        unmap_memory(range->base, range->span, range->chunk);
    }
    free(range);
}

/* Removes the range that begins at the address from the map if cuMemFree may free it. */
static struct sg_range *take_out(CUdeviceptr address)
{
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    if (range && range->base == address &&
        (range->kind == SG_RANGE_ALLOCATED || range->kind == SG_RANGE_MANAGED ||
         range->kind == SG_RANGE_POOLED)) {
        sg_ranges_remove(range);
    } else {
        range = NULL;
    }
    sg_ranges_unlock();
    return range;
}

CUresult sg_memory_free(CUdeviceptr address)
{
    struct sg_range *range = take_out(address);
    if (!range) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_pay(sg_profile_of(range->gpu)->free_ns);
    release(range);
    return CUDA_SUCCESS;
}

void sg_memory_free_all(CUcontext context)
{
    for (;;) {
        sg_ranges_lock();
        struct sg_range *range = sg_ranges_next_of_context(context);
        if (range) {
            sg_ranges_remove(range);
        }
        sg_ranges_unlock();
        if (!range) {
            return;
        }
        release(range);
    }
}
