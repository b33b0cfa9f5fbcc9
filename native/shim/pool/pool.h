/* Memory pools whose memory can leave.
 *
 * The driver's own pools take memory that cannot be moved. So a program's pool keeps the driver's
 * handle and settings, but its memory is ours: allocations are pieces of extents, which are
 * reused in the order of streams, and what is reserved and used is counted here. Pools that are made
 * to be shared with other processes, or are not on a device, stay the driver's own (unevictable.h).
 */
#ifndef MOIETY_SHIM_POOL_POOL_H
#define MOIETY_SHIM_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct address_info;
struct pool;

/* The pool of ours with this handle; NULL: it is the driver's own, or no pool. */
struct pool *pool_of(CUmemoryPool handle);
/* The program has made a pool on this device; `most`: the bytes that it may have, 0: no limit. */
CUresult pool_add(CUmemoryPool handle, CUdevice ordinal, uint64_t most);
CUdevice pool_ordinal(const struct pool *pool);
/* The handle is gone; memory that is in use stays until it is freed. */
void pool_remove(CUmemoryPool handle);

/* Frees what pool_allocate returned after what was submitted to the stream so far; `at_once`: nothing
 * uses it any more. False: it is the driver's own. */
bool pool_free(CUdeviceptr pointer, CUstream stream, bool at_once, CUresult *result);

/* Corrects what the driver answered of a pool, since it does not know of our memory. */
void pool_get(struct pool *pool, CUmemPool_attribute attribute, void *value);
/* The driver has taken this setting. */
void pool_set(struct pool *pool, CUmemPool_attribute attribute, const void *value);
/* The allocation that an address lies in, of an extent that is a pool's; false: there is none. */
bool pool_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes);
/* The same with all that is known of it. */
bool pool_describe(CUdeviceptr pointer, struct address_info *info);

void pools_forget_stream(CUstream stream);
/* A context is gone; with the last one on a device all memory of its pools. */
void pools_forget_context(struct device *device, CUcontext context);
void pools_after_fork(void);

#endif
