#include "simgpu/mem/address.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/resize.h"
#include "simgpu/mem/interval_set.h"

#define LARGEST (1ull << 43)
#define SMALLEST (1ull << 36)

/* ---- the reservation ---- */

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t region, region_end;
static struct sg_interval_set gaps;

static void reserve_region(void)
{
    for (uint64_t size = LARGEST; !region && size >= SMALLEST; size /= 2) {
        void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            continue;
        }
        madvise(at, size, MADV_DONTDUMP);
        uint64_t start = ((uint64_t)(uintptr_t)at + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1);
        region = (uint64_t)(uintptr_t)at;
        region_end = region + size;
        sg_interval_set_add(&gaps, start, region_end - start);
    }
}

uint64_t sg_addresses_alloc(uint64_t size, uint64_t alignment, uint64_t hint)
{
    uint64_t taken;
    size = (size + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1);
    if (alignment < SG_BLOCK_BYTES) {
        alignment = SG_BLOCK_BYTES;
    }
    pthread_mutex_lock(&free_lock);
    if (!region) {
        reserve_region();
    }
    if (hint && hint % alignment == 0 && sg_interval_set_take_at(&gaps, hint, size)) {
        taken = hint;
    } else {
        taken = sg_interval_set_take(&gaps, size, alignment);
    }
    pthread_mutex_unlock(&free_lock);
    return taken == SG_NO_INTERVAL ? 0 : taken;
}

void sg_addresses_free(uint64_t base, uint64_t size)
{
    pthread_mutex_lock(&free_lock);
    sg_interval_set_add(&gaps, base, (size + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1));
    pthread_mutex_unlock(&free_lock);
}

int sg_address_is_device(uint64_t address) { return address >= region && address < region_end; }

void sg_address_clear(uint64_t base, uint64_t size)
{
    void *at = mmap((void *)(uintptr_t)base, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) {
        abort(); /* the bytes would stay accessible */
    }
}

/* ---- the map ---- */

struct map {
    struct sg_range **at; /* sorted by base */
    size_t count, capacity;
};

static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;
static struct map ranges, mapped, registered;
static uint64_t next_id = 1;

/* Returns how many ranges begin at or below the address. */
static size_t below(const struct map *map, uint64_t address)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->at[middle]->base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct sg_range *find_in(const struct map *map, uint64_t address)
{
    size_t i = below(map, address);
    if (i == 0 || address - map->at[i - 1]->base >= map->at[i - 1]->size) {
        return NULL;
    }
    return map->at[i - 1];
}

static struct map *map_of(const struct sg_range *range)
{
    return range->kind == SG_RANGE_MAPPED       ? &mapped
           : range->kind == SG_RANGE_REGISTERED ? &registered
                                                : &ranges;
}

void sg_ranges_lock(void) { pthread_mutex_lock(&map_lock); }

void sg_ranges_unlock(void) { pthread_mutex_unlock(&map_lock); }

void sg_ranges_add(struct sg_range *range)
{
    struct map *map = map_of(range);
    size_t i = below(map, range->base);
    if (map->count == map->capacity) {
        map->capacity = map->capacity ? map->capacity * 2 : 256;
        map->at = sg_resize(map->at, map->capacity * sizeof *map->at);
    }
    memmove(&map->at[i + 1], &map->at[i], (map->count - i) * sizeof *map->at);
    map->at[i] = range;
    map->count++;
    range->id = next_id++;
}

void sg_ranges_remove(struct sg_range *range)
{
    struct map *map = map_of(range);
    size_t i = below(map, range->base) - 1;
    memmove(&map->at[i], &map->at[i + 1], (--map->count - i) * sizeof *map->at);
}

struct sg_range *sg_ranges_find(uint64_t address)
{
    struct sg_range *range = find_in(&ranges, address);
    return range ? range : find_in(&registered, address);
}

struct sg_range *sg_ranges_find_mapped(uint64_t address) { return find_in(&mapped, address); }

struct sg_range *sg_ranges_mapped_after(uint64_t address)
{
    size_t i = below(&mapped, address);
    if (i > 0 && address - mapped.at[i - 1]->base < mapped.at[i - 1]->size) {
        return mapped.at[i - 1];
    }
    return i < mapped.count ? mapped.at[i] : NULL;
}

static struct sg_range *find_of_context(const struct map *map, CUcontext context)
{
    for (size_t i = 0; i < map->count; i++) {
        if (map->at[i]->context == context && map->at[i]->kind != SG_RANGE_RESERVED) {
            return map->at[i];
        }
    }
    return NULL;
}

struct sg_range *sg_ranges_next_of_context(CUcontext context)
{
    struct sg_range *range = find_of_context(&ranges, context);
    return range ? range : find_of_context(&registered, context);
}

struct sg_range *sg_ranges_next_of_pool(CUmemoryPool pool)
{
    for (size_t i = 0; i < ranges.count; i++) {
        if (ranges.at[i]->kind == SG_RANGE_POOLED && ranges.at[i]->pool == pool) {
            return ranges.at[i];
        }
    }
    return NULL;
}

/* ---- questions ---- */

int sg_is_device_range(uint64_t address, uint64_t bytes)
{
    sg_ranges_lock();
    struct sg_range *range = find_in(&ranges, address);
    /* A program may copy across neighbouring allocations that it mapped. */
    int is =
        range && range->kind != SG_RANGE_HOST && bytes <= range->size - (address - range->base);
    sg_ranges_unlock();
    return is;
}

int sg_is_pinned(uint64_t address, uint64_t bytes)
{
    sg_ranges_lock();
    struct sg_range *range = find_in(&registered, address);
    if (!range) {
        range = find_in(&ranges, address);
        if (range && range->kind != SG_RANGE_HOST) {
            range = NULL;
        }
    }
    int is = range && bytes <= range->size - (address - range->base);
    sg_ranges_unlock();
    return is;
}

int sg_gpu_of_address(uint64_t address)
{
    sg_ranges_lock();
    struct sg_range *range = find_in(&mapped, address);
    if (!range) {
        range = find_in(&ranges, address);
    }
    int gpu = range && range->kind != SG_RANGE_HOST && range->kind != SG_RANGE_REGISTERED
                  ? (int)range->gpu
                  : -1;
    sg_ranges_unlock();
    return gpu;
}
