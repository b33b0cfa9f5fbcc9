#include "shim/allocation.h"

#include <stdlib.h>
#include <string.h>

#include "shim/blocks.h"
#include "shim/real.h"

/* No address looks like this, and no handle that a driver was seen to give. */
#define HANDLE_MARK (0x6d79ull << 48)

static struct allocation **table; /* in order of handle, which is that of birth */
static size_t count;
static size_t room;
static uint64_t births;

static size_t place(CUmemGenericAllocationHandle handle)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle]->handle < handle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct allocation *allocation_find(CUmemGenericAllocationHandle handle)
{
    size_t at = place(handle);
    bool given = at < count && table[at]->handle == handle && table[at]->handles;
    return given ? table[at] : NULL;
}

static bool insert(struct allocation *allocation)
{
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        struct allocation **grown = realloc(table, more * sizeof(struct allocation *));
        if (!grown) {
            return false;
        }
        table = grown;
        room = more;
    }
    table[count++] = allocation;
    return true;
}

CUresult allocation_make(struct block **block, struct device *device, uint64_t bytes,
                         const CUmemAllocationProp *prop)
{
    struct allocation *made = calloc(1, sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* What can be exported is one piece of memory for the driver as well. */
    if (block_make_apart(block, device, bytes, prop->requestedHandleTypes != 0) != CUDA_SUCCESS) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct allocation){
        .handle = HANDLE_MARK | ++births, .handles = 1, .prop = *prop, .block = *block};
    if (!insert(made)) {
        free(*block);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*block)->allocation = made;
    return CUDA_SUCCESS;
}

static bool is_unused(const struct allocation *allocation)
{
    return !allocation->handles && !allocation->mappings;
}

bool allocation_release(struct allocation *allocation)
{
    allocation->handles--;
    return is_unused(allocation);
}

struct allocation *allocation_of_real(CUmemGenericAllocationHandle real)
{
    for (size_t i = 0; i < count; i++) {
        const struct block *block = table[i]->block;
        if (block->stays && block->chunks[0].present && block->chunks[0].handle == real) {
            return table[i];
        }
    }
    return NULL;
}

/* ---- one chunk ---- */

static uint64_t offset_of(const struct block *block, uint32_t chunk)
{
    return (uint64_t)chunk * block->chunks[0].bytes;
}

/* How many bytes of a chunk lie in a mapping, from the chunk's first on. */
static uint64_t part_in(const struct mapping *mapping, const struct block *block, uint32_t chunk)
{
    uint64_t offset = offset_of(block, chunk);
    uint64_t beyond = mapping->bytes > offset ? mapping->bytes - offset : 0;
    return beyond < block->chunks[chunk].bytes ? beyond : block->chunks[chunk].bytes;
}

CUdeviceptr allocation_at(const struct block *block, uint32_t chunk)
{
    const struct allocation *allocation = block->allocation;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, block->device->ordinal};
    if (block->chunks[chunk].windowed) {
        return allocation->window + offset_of(block, chunk);
    }
    for (const struct mapping *m = allocation->mappings; m; m = m->next_of) {
        if (part_in(m, block, chunk) == block->chunks[chunk].bytes &&
            mapping_access(m, &here) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return m->base + offset_of(block, chunk);
        }
    }
    return 0;
}

CUresult allocation_reach(struct block *block, uint32_t chunk)
{
    struct allocation *allocation = block->allocation;
    struct chunk *wanted = &block->chunks[chunk];
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, block->device->ordinal},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = CUDA_SUCCESS;
    if (allocation_at(block, chunk)) {
        return CUDA_SUCCESS;
    }
    if (!allocation->window) {
        result = REAL(cuMemAddressReserve)(&allocation->window, block->span, 0, 0, 0);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    CUdeviceptr at = allocation->window + offset_of(block, chunk);
    result = REAL(cuMemMap)(at, wanted->bytes, 0, wanted->handle, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(cuMemSetAccess)(at, wanted->bytes, &access, 1);
    if (result != CUDA_SUCCESS) {
        REAL(cuMemUnmap)(at, wanted->bytes);
        return result;
    }
    wanted->windowed = true;
    return CUDA_SUCCESS;
}

/* At one of the program's addresses, with the access that it allowed there. */
static CUresult show(const struct mapping *mapping, const struct block *block, uint32_t chunk)
{
    CUdeviceptr at = mapping->base + offset_of(block, chunk);
    uint64_t part = part_in(mapping, block, chunk);
    CUresult result = REAL(cuMemMap)(at, part, 0, block->chunks[chunk].handle, 0);
    if (result != CUDA_SUCCESS || !mapping->access_count) {
        return result;
    }
    result = REAL(cuMemSetAccess)(at, part, mapping->access, mapping->access_count);
    if (result != CUDA_SUCCESS) {
        REAL(cuMemUnmap)(at, part);
    }
    return result;
}

static void hide(const struct mapping *mapping, const struct block *block, uint32_t chunk)
{
    uint64_t part = part_in(mapping, block, chunk);
    if (part) {
        REAL(cuMemUnmap)(mapping->base + offset_of(block, chunk), part);
    }
}

CUresult allocation_back(struct block *block, uint32_t chunk)
{
    const struct allocation *allocation = block->allocation;
    struct chunk *wanted = &block->chunks[chunk];
    CUresult result = REAL(cuMemCreate)(&wanted->handle, wanted->bytes, &allocation->prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (const struct mapping *m = allocation->mappings; m; m = m->next_of) {
        if (!part_in(m, block, chunk)) {
            continue;
        }
        result = show(m, block, chunk);
        if (result != CUDA_SUCCESS) {
            for (const struct mapping *done = allocation->mappings; done != m;
                 done = done->next_of) {
                hide(done, block, chunk);
            }
            REAL(cuMemRelease)(wanted->handle);
            wanted->handle = 0;
            return result;
        }
    }
    wanted->present = true;
    wanted->looked = 0;
    return CUDA_SUCCESS;
}

void allocation_unback(struct block *block, uint32_t chunk)
{
    const struct allocation *allocation = block->allocation;
    struct chunk *wanted = &block->chunks[chunk];
    for (const struct mapping *m = allocation->mappings; m; m = m->next_of) {
        hide(m, block, chunk);
    }
    if (wanted->windowed) {
        REAL(cuMemUnmap)(allocation->window + offset_of(block, chunk), wanted->bytes);
        wanted->windowed = false;
    }
    REAL(cuMemRelease)(wanted->handle);
    wanted->handle = 0;
    wanted->present = false;
}

/* ---- as the program sees it ---- */

CUresult allocation_map(struct allocation *allocation, CUdeviceptr address, uint64_t bytes,
                        unsigned long long flags)
{
    struct block *block = allocation->block;
    struct mapping *made = calloc(1, sizeof(*made));
    CUresult result = bytes && bytes <= block->span ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    uint32_t shown = 0;
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct mapping){.base = address, .bytes = bytes, .of = allocation};
    while (result == CUDA_SUCCESS && shown < block->chunk_count && part_in(made, block, shown)) {
        const struct chunk *chunk = &block->chunks[shown];
        result = chunk->present
                     ? REAL(cuMemMap)(address + offset_of(block, shown),
                                      part_in(made, block, shown), 0, chunk->handle, flags)
                     : CUDA_ERROR_OUT_OF_MEMORY; /* its context is broken */
        shown += result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && mappings_insert(made) != 0) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        while (shown) {
            hide(made, block, --shown);
        }
        free(made);
        return result;
    }
    made->next_of = allocation->mappings;
    allocation->mappings = made;
    return CUDA_SUCCESS;
}

bool allocation_sees(const struct mapping *mapping, CUdeviceptr address)
{
    const struct block *block = mapping->of->block;
    return block->chunks[(address - mapping->base) / block->chunks[0].bytes].present;
}

static void forget(struct mapping *mapping)
{
    struct mapping **at = &mapping->of->mappings;
    while (*at != mapping) {
        at = &(*at)->next_of;
    }
    *at = mapping->next_of;
    mappings_remove(mapping);
    free(mapping->access);
    free(mapping);
}

bool allocation_unmap(struct mapping *mapping)
{
    struct allocation *allocation = mapping->of;
    for (uint32_t i = 0; i < allocation->block->chunk_count; i++) {
        if (allocation->block->chunks[i].present) {
            hide(mapping, allocation->block, i);
        }
    }
    forget(mapping);
    return is_unused(allocation);
}

void allocation_end(struct block *block)
{
    struct allocation *allocation = block->allocation;
    size_t at = place(allocation->handle);
    for (struct mapping *m = allocation->mappings, *next; m; m = next) {
        next = m->next_of;
        forget(m);
    }
    if (allocation->window) {
        REAL(cuMemAddressFree)(allocation->window, block->span);
    }
    count--;
    memmove(table + at, table + at + 1, (count - at) * sizeof(struct allocation *));
    free(allocation);
}

void allocation_after_fork(void)
{
    count = 0;
    mappings_after_fork();
}
