/* Memory pools. Attributes, properties and places are the driver's. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(cudaDeviceGetDefaultMemPool, CUmemoryPool *pool, int device)
{
    RT_PASS(rt_driver.cuDeviceGetDefaultMemPool(pool, device));
}

RT_CALL(cudaDeviceGetMemPool, CUmemoryPool *pool, int device)
{
    RT_PASS(rt_driver.cuDeviceGetMemPool(pool, device));
}

RT_CALL(cudaDeviceSetMemPool, int device, CUmemoryPool pool)
{
    RT_PASS(rt_driver.cuDeviceSetMemPool(device, pool));
}

RT_CALL(cudaMemPoolCreate, CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    RT_PASS(rt_driver.cuMemPoolCreate(pool, properties));
}

RT_CALL(cudaMemPoolDestroy, CUmemoryPool pool) { RT_PASS(rt_driver.cuMemPoolDestroy(pool)); }

RT_CALL(cudaMemPoolTrimTo, CUmemoryPool pool, size_t keep)
{
    RT_PASS(rt_driver.cuMemPoolTrimTo(pool, keep));
}

RT_CALL(cudaMemPoolGetAttribute, CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    RT_PASS(rt_driver.cuMemPoolGetAttribute(pool, attribute, value));
}

RT_CALL(cudaMemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    RT_PASS(rt_driver.cuMemPoolSetAttribute(pool, attribute, value));
}

RT_CALL(cudaMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    RT_PASS(rt_driver.cuMemPoolSetAccess(pool, access, count));
}

RT_CALL(cudaMemPoolGetAccess, CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *place)
{
    RT_PASS(rt_driver.cuMemPoolGetAccess(flags, pool, place));
}

/* ---- what graphs hold ---- */

RT_CALL(cudaDeviceGetGraphMemAttribute, int device, CUgraphMem_attribute attribute, void *value)
{
    RT_PASS(rt_driver.cuDeviceGetGraphMemAttribute(device, attribute, value));
}

RT_CALL(cudaDeviceSetGraphMemAttribute, int device, CUgraphMem_attribute attribute, void *value)
{
    RT_PASS(rt_driver.cuDeviceSetGraphMemAttribute(device, attribute, value));
}

RT_CALL(cudaDeviceGraphMemTrim, int device) { RT_PASS(rt_driver.cuDeviceGraphMemTrim(device)); }
