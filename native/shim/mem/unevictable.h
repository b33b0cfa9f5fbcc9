/* Memory that the driver keeps and nobody can move, beside contexts: arrays, pools that other
 * processes see, memory of graphs. It is charged before it is made, as residue: the program shares
 * on, and only these bytes stay. */
#ifndef MOIETY_SHIM_MEM_UNEVICTABLE_H
#define MOIETY_SHIM_MEM_UNEVICTABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

#define UNEVICTABLE_PAGE (64ull << 10) /* what it is charged in */

/* Counts so many bytes, and there is room for them; CUDA_ERROR_OUT_OF_MEMORY otherwise. The caller is
 * outside the gate and holds no lock. */
CUresult unevictable_take(struct device *device, uint64_t bytes);
void unevictable_give(struct device *device, uint64_t bytes);

/* What one object of the driver's takes, by its handle. */
CUresult unevictable_add(const void *object, CUcontext context, struct device *device,
                         uint64_t bytes);
/* The object is gone. */
void unevictable_remove(const void *object);
/* So are all of a context. */
void unevictable_forget_context(CUcontext context);

/* What grows by itself, and can be asked how much it has: a pool of the driver's, or (handle NULL) the
 * memory of a device's graphs. */
struct meter;
struct meter *unevictable_meter(CUmemoryPool handle, struct device *device);
/* NULL: nobody made one. */
struct meter *unevictable_find_meter(CUmemoryPool handle, CUdevice ordinal);
/* It may take so many bytes more. */
CUresult unevictable_expect(struct meter *meter, uint64_t bytes);
/* What it really has is charged from now on. */
void unevictable_settle(struct meter *meter);
/* All of them that are pools: they shrink when the program waits for the GPU. */
void unevictable_settle_pools(void);
/* The pool is destroyed. */
void unevictable_end_meter(CUmemoryPool handle);
void unevictable_forget_device(struct device *device);
void unevictable_after_fork(void);

#endif
