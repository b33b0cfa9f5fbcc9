/* Virtual memory: addresses and memory apart, put together by the program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu/address.h"
#include "simgpu/chunk.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* handles of chunks, and what is mapped */

static int granular(uint64_t value) { return value != 0 && value % SG_BLOCK_BYTES == 0; }

/* Pays where the program waits: there is no device to ask when it has none current. */
static void pay(unsigned gpu, uint64_t ns)
{
    (void)gpu;
    sg_pay(ns);
}

/* ---- addresses ---- */

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    SG_ENTER();
    if (!out || !granular(size) || flags || (alignment & (alignment - 1))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->base = sg_addresses_take(size, alignment, hint);
    if (!range->base) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->size = range->span = size;
    range->kind = SG_RESERVED;
    sg_map_lock();
    sg_map_add(range);
    sg_map_unlock();
    *out = range->base;
    pay(0, sg_profile_of(0)->reserve_ns);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    SG_ENTER();
    CUresult result = CUDA_SUCCESS;
    sg_map_lock();
    struct sg_range *range = sg_map_find(address);
    struct sg_range *inside = sg_map_mapped_after(address);
    if (!range || range->kind != SG_RESERVED || range->base != address || range->size != size ||
        (inside && inside->base < address + size)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        sg_map_remove(range);
    }
    sg_map_unlock();
    if (result) {
        return result;
    }
    sg_addresses_give(address, size);
    free(range);
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return prop->location.type > CU_MEM_LOCATION_TYPE_DEVICE &&
                       prop->location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(prop->location.id)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    SG_ENTER();
    if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_prop(prop));
    *granularity = SG_BLOCK_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct sg_chunk *chunk;
    SG_ENTER();
    if (!out || flags || !granular(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_prop(prop));
    unsigned gpu = sg_device_of(prop->location.id);
    SG_TRY(sg_chunk_create(&chunk, gpu, size, prop));
    chunk->handles = 1;
    sg_handle_add(chunk, SG_CHUNK);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)chunk;
    pay(gpu, sg_profile_of(gpu)->create_ns);
    return CUDA_SUCCESS;
}

static struct sg_chunk *chunk_of(CUmemGenericAllocationHandle handle)
{
    struct sg_chunk *chunk = (struct sg_chunk *)(uintptr_t)handle;
    return sg_handle_is(chunk, SG_CHUNK) ? chunk : NULL;
}

/* One handle more for the program: the same value, released as often as it was given. */
static void give_handle(struct sg_chunk *chunk, CUmemGenericAllocationHandle *out)
{
    if (chunk->handles++ == 0) {
        sg_handle_add(chunk, SG_CHUNK);
    }
    *out = (CUmemGenericAllocationHandle)(uintptr_t)chunk;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SG_ENTER();
    pthread_mutex_lock(&lock);
    struct sg_chunk *chunk = chunk_of(handle);
    if (chunk && --chunk->handles == 0) {
        sg_handle_remove(chunk, SG_CHUNK);
    }
    pthread_mutex_unlock(&lock);
    if (!chunk) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pay(chunk->gpu, sg_profile_of(chunk->gpu)->release_ns);
    sg_chunk_unref(chunk);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    sg_map_lock();
    struct sg_range *range = sg_map_mapped((uint64_t)(uintptr_t)address);
    if (range) {
        sg_chunk_ref(range->chunk);
        give_handle(range->chunk, out);
    }
    sg_map_unlock();
    pthread_mutex_unlock(&lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    SG_ENTER();
    struct sg_chunk *chunk = chunk_of(handle);
    if (!chunk || !prop) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *prop = chunk->prop;
    return CUDA_SUCCESS;
}

/* ---- mapping ---- */

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SG_ENTER();
    if (flags || offset || !granular(size) || address % SG_BLOCK_BYTES) {
        return CUDA_ERROR_INVALID_VALUE; /* as the real driver: an offset other than 0 is not supported */
    }
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct sg_chunk *chunk = chunk_of(handle);
    sg_map_lock();
    struct sg_range *reserved = sg_map_find(address), *inside = sg_map_mapped_after(address);
    if (chunk && size <= chunk->bytes && reserved && reserved->kind == SG_RESERVED &&
        size <= reserved->size - (address - reserved->base) &&
        !(inside && inside->base < address + size)) {
        result = sg_chunk_map(chunk, address, size, offset, PROT_NONE);
        if (!result) {
            sg_chunk_ref(chunk);
            *range = (struct sg_range){.base = address,
                                       .size = size,
                                       .span = size,
                                       .kind = SG_MAPPED,
                                       .gpu = chunk->gpu,
                                       .chunk = chunk,
                                       .offset = offset};
            sg_map_add(range);
        }
    }
    sg_map_unlock();
    pthread_mutex_unlock(&lock);
    if (result) {
        free(range);
        return result;
    }
    pay(chunk->gpu, sg_profile_of(chunk->gpu)->map_ns);
    return CUDA_SUCCESS;
}

/* Whole mappings, one after the other, fill the range: how many; 0: they do not. Map locked. */
static unsigned whole_mappings(uint64_t address, uint64_t size)
{
    unsigned count = 0;
    uint64_t at = address;
    while (at < address + size) {
        struct sg_range *range = sg_map_mapped(at);
        if (!range || range->base != at || range->size > address + size - at) {
            return 0;
        }
        at += range->size;
        count++;
    }
    return count;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    SG_ENTER();
    if (!granular(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_map_lock();
    unsigned count = whole_mappings(address, size), gpu = 0;
    struct sg_range *gone = NULL; /* linked by managed, which mappings do not use */
    for (uint64_t at = address; count && at < address + size;) {
        struct sg_range *range = sg_map_mapped(at);
        at += range->size;
        gpu = range->gpu;
        sg_chunk_unmap(range->chunk, range->base, range->size, range->offset);
        sg_map_remove(range);
        range->managed = (struct sg_managed *)(void *)gone;
        gone = range;
    }
    if (count) {
        sg_address_clear(address, size);
    }
    sg_map_unlock();
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    while (gone) {
        struct sg_range *next = (struct sg_range *)(void *)gone->managed;
        sg_chunk_unref(gone->chunk);
        free(gone);
        gone = next;
    }
    pay(gpu, count * sg_profile_of(gpu)->unmap_ns);
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    SG_ENTER();
    if (!desc || !count || !granular(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            !sg_device_is(desc[i].location.id)) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    sg_map_lock();
    unsigned chunks = whole_mappings(address, size), gpu = 0;
    for (uint64_t at = address; chunks && at < address + size;) {
        struct sg_range *range = sg_map_mapped(at);
        gpu = range->gpu;
        /* One process has one page table here: what any device may do, all may. */
        for (size_t i = 0; i < count; i++) {
            if (sg_device_of(desc[i].location.id) == range->gpu ||
                (int)desc[i].flags > range->access) {
                range->access = (int)desc[i].flags;
            }
        }
        int protection = range->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                             ? PROT_READ | PROT_WRITE
                         : range->access == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                                          : PROT_NONE;
        mprotect((void *)(uintptr_t)range->base, range->size, protection);
        at += range->size;
    }
    sg_map_unlock();
    if (!chunks) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pay(gpu, chunks * sg_profile_of(gpu)->access_ns);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    SG_ENTER();
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sg_device_is(location->id)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_map_lock();
    struct sg_range *range = sg_map_mapped(address);
    if (range) {
        *flags = (unsigned long long)range->access;
    }
    sg_map_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- between processes ---- */

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sg_token token;
    SG_ENTER();
    struct sg_chunk *chunk = chunk_of(handle);
    if (!out || flags || !chunk) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!(chunk->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_chunk_share(chunk, &token));
    int file = (int)syscall(SYS_memfd_create, "simgpu-shared", 1u /* MFD_CLOEXEC */);
    if (file < 0 || write(file, &token, sizeof token) != (ssize_t)sizeof token) {
        if (file >= 0) {
            close(file);
        }
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(out, &file, sizeof file);
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    struct sg_token token;
    struct sg_chunk *chunk;
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (pread((int)(intptr_t)os_handle, &token, sizeof token, 0) != (ssize_t)sizeof token) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    CUresult result = sg_chunk_adopt(&chunk, &token);
    if (!result) {
        give_handle(chunk, out);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    SG_ENTER();
    (void)handle, (void)address, (void)size, (void)type, (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED; /* no dma-buf, and the attribute says so */
}
