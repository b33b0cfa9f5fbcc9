/* A driver that says yes to everything, in place of base/driver.c: what the shim calls of it comes here. */
#ifndef UNIT_FAKE_DRIVER_H
#define UNIT_FAKE_DRIVER_H

#include "shim/base/driver.h"

void *driver_entries[ENTRY_COUNT];
struct driver_threads driver_threads;

static CUresult fake_yes(void) { return CUDA_SUCCESS; }

static CUresult fake_out_of_memory(void) { return CUDA_ERROR_OUT_OF_MEMORY; }

static unsigned fake_created, fake_released;

static CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)bytes;
    (void)prop;
    (void)flags;
    *handle = ++fake_created;
    return CUDA_SUCCESS;
}

static CUresult fake_release(CUmemGenericAllocationHandle handle)
{
    (void)handle;
    fake_released++;
    return CUDA_SUCCESS;
}

static CUresult fake_reserve(CUdeviceptr *base, size_t bytes, size_t alignment, CUdeviceptr at,
                             unsigned long long flags)
{
    static CUdeviceptr next = 1ull << 40;
    (void)alignment;
    (void)at;
    (void)flags;
    *base = next;
    next += bytes;
    return CUDA_SUCCESS;
}

static inline void fake_driver(void)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        driver_entries[i] = (void *)fake_yes;
    }
    driver_entries[ENTRY_cuMemCreate] = (void *)fake_create;
    driver_entries[ENTRY_cuMemRelease] = (void *)fake_release;
    driver_entries[ENTRY_cuMemAddressReserve] = (void *)fake_reserve;
}

/* Whether the GPU has memory for the next chunks. */
static inline void fake_memory(bool is_there)
{
    driver_entries[ENTRY_cuMemCreate] = is_there ? (void *)fake_create : (void *)fake_out_of_memory;
}

#endif
