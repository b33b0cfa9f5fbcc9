#include "simgpu/mem/pool.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUmemoryPool all;
static CUmemoryPool defaults[SG_DEVICES_MAX], current[SG_DEVICES_MAX];
static uint64_t next_number = 1;

CUmemoryPool sg_pool(CUmemoryPool handle)
{
    return sg_handle_is(handle, SG_POOL) && !handle->dying ? handle : NULL;
}

CUmemoryPool sg_pool_new(unsigned gpu, const CUmemPoolProps *props)
{
    CUmemoryPool pool = calloc(1, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    pool->gpu = gpu;
    pool->props = *props;
    for (int i = 1; i < 4; i++) {
        pool->may_reuse[i] = 1;
    }
    pool->access[gpu] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    pool->number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
    pthread_mutex_init(&pool->lock, NULL);
    sg_handle_add(pool, SG_POOL);
    pthread_mutex_lock(&lock);
    pool->next = all;
    all = pool;
    pthread_mutex_unlock(&lock);
    return pool;
}

CUmemoryPool sg_pool_default(unsigned gpu)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, sg_ordinal_of(gpu)}};
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    if (!defaults[gpu]) {
        defaults[gpu] = sg_pool_new(gpu, &props);
        if (defaults[gpu]) {
            defaults[gpu]->is_default = 1;
        }
    }
    pthread_mutex_unlock(&making);
    return defaults[gpu];
}

CUmemoryPool sg_pool_current(unsigned gpu)
{
    CUmemoryPool pool = __atomic_load_n(&current[gpu], __ATOMIC_ACQUIRE);
    return pool ? pool : sg_pool_default(gpu);
}

/* Pools are never freed, so that walking along them needs no lock. */
CUmemoryPool sg_pool_next(CUmemoryPool pool)
{
    pthread_mutex_lock(&lock);
    CUmemoryPool next = pool ? pool->next : all;
    pthread_mutex_unlock(&lock);
    return next;
}

void sg_pool_set_current(CUmemoryPool pool)
{
    __atomic_store_n(&current[pool->gpu], pool, __ATOMIC_RELEASE);
}

void sg_pool_unset_current(CUmemoryPool pool)
{
    __atomic_compare_exchange_n(&current[pool->gpu], &pool, NULL, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
}
