#include "shim/mem/upcalls.h"

#include <stddef.h>

static void no_host_free(void *at, uint64_t bytes)
{
    (void)at;
    (void)bytes;
}

static bool no_reclaim(const struct device *device)
{
    (void)device;
    return false;
}

static bool no_pool_free(CUdeviceptr pointer, CUresult *result)
{
    (void)pointer;
    (void)result;
    return false;
}

static bool no_info(CUdeviceptr pointer, struct address_info *info)
{
    (void)pointer;
    (void)info;
    return false;
}

static void no_freed(CUdeviceptr base) { (void)base; }

static void *no_ending(const struct extent *extent)
{
    (void)extent;
    return NULL;
}

static void no_ended(void *exports) { (void)exports; }

struct mem_upcalls mem_upcalls = {
    .host_free = no_host_free,
    .reclaim = no_reclaim,
    .pool_free = no_pool_free,
    .pool_info = no_info,
    .import_info = no_info,
    .freed = no_freed,
    .ending = no_ending,
    .ended = no_ended,
};
