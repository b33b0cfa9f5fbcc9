/* Memory that the driver keeps and that cannot be moved, beside contexts: arrays, pools that other
 * processes can see, memory of graphs. It is charged before it is made, as residue: the program
 * still shares the GPU, and only these bytes stay. */
#ifndef MOIETY_SHIM_MEM_UNEVICTABLE_H
#define MOIETY_SHIM_MEM_UNEVICTABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

#define UNEVICTABLE_PAGE (64ull << 10) /* what it is charged in */

/* Charges bytes. CUDA_SUCCESS: there is room for them; else CUDA_ERROR_OUT_OF_MEMORY. The caller is
 * outside the gate and holds no lock. */
CUresult unevictable_take(struct device *device, uint64_t bytes);
void unevictable_give(struct device *device, uint64_t bytes);

/* Remembers the bytes that one object of the driver's takes, by its handle. */
CUresult unevictable_add(const void *object, CUcontext context, struct device *device,
                         uint64_t bytes);
/* Ends the charge of an object that is gone. */
void unevictable_remove(const void *object);
/* Ends the charges of all objects of a context that is gone. */
void unevictable_forget_context(CUcontext context);

/* Memory that grows by itself and whose size the driver tells: a pool of the driver's, or (handle
 * NULL) the memory of a device's graphs. */
struct meter;
struct meter *unevictable_meter(CUmemoryPool handle, struct device *device);
/* NULL: there is none yet. */
struct meter *unevictable_find_meter(CUmemoryPool handle, CUdevice ordinal);
/* Charges `bytes` that the memory of a pool may grow by. */
CUresult unevictable_expect(struct meter *meter, uint64_t bytes);
/* Charges what the memory of a pool really takes now. */
void unevictable_settle(struct meter *meter);
/* Charges what the memory of graphs takes now, and `expected` bytes that the driver has yet to take
 * (graph_memory.h). */
CUresult unevictable_charge_graphs(struct meter *meter, uint64_t expected);
/* Settles the meters of all pools: pools shrink when the program waits for the GPU. */
void unevictable_settle_pools(void);
/* The pool is destroyed. Memory of it that is not freed yet stays charged. */
void unevictable_end_meter(CUmemoryPool handle);
void unevictable_forget_device(struct device *device);
void unevictable_after_fork(void);

#endif
