/* The entry points about pools: creation, attributes and access. */
#include <string.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/mem/pool.h"
#include "simgpu/mem/pool_memory.h"

/* ---- creating and destroying ---- */

/* Pools of host memory and of managed memory are not supported, as the device attributes say. */
static CUresult check_place(const CUmemLocation *location, CUmemAllocationType type)
{
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CUDA_ERROR_NOT_SUPPORTED
                                                      : CUDA_ERROR_INVALID_VALUE;
    }
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return location->type > CU_MEM_LOCATION_TYPE_DEVICE &&
                       location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    }
    return sg_device_is(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    SG_ENTER();
    if (!out || !props) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_place(&props->location, props->allocType));
    if (props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *out = sg_pool_new(sg_device_of(props->location.id), props);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!pool || pool->is_default) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_handle_remove(pool, SG_POOL);
    sg_pool_unset_current(pool);
    pthread_mutex_lock(&pool->lock);
    pool->dying = 1;
    pool->threshold_bytes = 0;
    pthread_mutex_unlock(&pool->lock);
    sg_pool_trim(pool, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!pool) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_pool_trim(pool, keep);
    return CUDA_SUCCESS;
}

/* ---- which one is meant ---- */

static CUresult give(CUmemoryPool *out, CUdevice device, CUmemoryPool (*which)(unsigned))
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *out = which(sg_device_of(device));
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    return give(out, device, sg_pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    return give(out, device, sg_pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!pool || pool->gpu != sg_device_of(device) || pool->is_imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_pool_set_current(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    SG_ENTER();
    if (!out || !location) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_place(location, type));
    return cuDeviceGetDefaultMemPool(out, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    SG_ENTER();
    if (!out || !location) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_place(location, type));
    return cuDeviceGetMemPool(out, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    SG_ENTER();
    if (!location) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_place(location, type));
    return cuDeviceSetMemPool(location->id, pool);
}

/* ---- attributes ---- */

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    CUresult result = CUDA_SUCCESS;
    int number = 0;
    uint64_t bytes = 0;
    int is_number = 0;
    if (!pool || !value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&pool->lock);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        number = pool->may_reuse[attribute];
        is_number = 1;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        bytes = pool->threshold_bytes;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        bytes = pool->reserved_bytes;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        bytes = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        bytes = pool->used_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        bytes = pool->used_high;
        break;
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
        number = (int)pool->props.allocType;
        is_number = 1;
        break;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
        number = (int)pool->props.handleTypes;
        is_number = 1;
        break;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
        number = pool->props.location.id;
        is_number = 1;
        break;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
        number = (int)pool->props.location.type;
        is_number = 1;
        break;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
        bytes = pool->props.maxSize;
        break;
    case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
        is_number = 1;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!result && is_number) {
        memcpy(value, &number, sizeof number);
    } else if (!result) {
        memcpy(value, &bytes, sizeof bytes);
    }
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    uint64_t bytes = 0;
    int number = 0;
    int is_number = attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    CUresult result = CUDA_SUCCESS;
    if (!pool || !value || (pool->is_imported && !is_number)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(is_number ? (void *)&number : (void *)&bytes, value,
           is_number ? sizeof number : sizeof bytes);
    pthread_mutex_lock(&pool->lock);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->may_reuse[attribute] = number != 0;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold_bytes = bytes;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* only back to what it is now */
        result = bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        pool->reserved_high = bytes ? pool->reserved_high : pool->reserved_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        result = bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        pool->used_high = bytes ? pool->used_high : pool->used_bytes;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->lock);
    return result;
}

/* ---- access ---- */

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!pool || (count && !map)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
             map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
             map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (!sg_device_is(map[i].location.id)) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        if (sg_device_of(map[i].location.id) == pool->gpu &&
            map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return CUDA_ERROR_INVALID_VALUE; /* its own device always may */
        }
    }
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < count; i++) {
        pool->access[sg_device_of(map[i].location.id)] = map[i].flags;
    }
    pthread_mutex_unlock(&pool->lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!flags || !pool || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(location->id)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = pool->access[sg_device_of(location->id)];
    return CUDA_SUCCESS;
}
