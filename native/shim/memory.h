/* Device memory that can leave: address ranges that stay, backed by chunks that come and go.
 *
 * An allocation is a reserved range of addresses. Its chunks are present (backed by memory of
 * the GPU), out (their bytes in the arena), new (nothing was ever in them) or hollow (nothing is
 * in them any more, hollow.h). Whoever is inside the open gate finds all but those present. Managed
 * memory is the exception: the driver moves its pages when they are touched (managed.h).
 */
#ifndef MOIETY_SHIM_MEMORY_H
#define MOIETY_SHIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/devices.h"

/* Whether so many bytes are within the process' limit. If they are not, the agent is asked all the same:
 * it writes down who is refused what. The caller is outside the gate and holds no lock. */
bool memory_allows(struct device *device, uint64_t bytes);
/* Allocates on the device of the current context; the driver's own error codes. */
CUresult memory_allocate(CUdeviceptr *pointer, size_t bytes);
/* The same as managed memory, because the program asked for that; `attach` is its flag. */
CUresult memory_allocate_managed(CUdeviceptr *pointer, size_t bytes, unsigned attach);
/* How memory_allocate does it from now on: enum mw_memory_mode. */
void memory_set_mode(uint32_t wanted);
/* Frees what these returned. False: it is not ours, ask the driver. */
bool memory_free(CUdeviceptr pointer, CUresult *result);
/* Frees what was put off while a capture was open. */
void memory_capture_ended(void);
/* Control thread: the same while one is open, once nothing runs on a GPU. */
void memory_drained(void);
/* What is known of an allocation. */
struct memory_info {
    CUdeviceptr base;
    size_t bytes;      /* as asked for */
    CUcontext context; /* NULL: of none, as pools' is */
    CUdevice ordinal;
    bool managed;
    bool mapping;          /* the program mapped it itself */
    bool imported;         /* opened: another process made it */
    unsigned handle_types; /* those it may be shared by */
    CUmemoryPool pool;     /* NULL: of none */
    uint64_t number;       /* never used again */
};
/* The allocation that `pointer` points into; false if it is not ours. */
bool memory_describe(CUdeviceptr pointer, struct memory_info *info);
/* What to ask the driver of instead of `pointer`: where that lies in a page of ours and in no
 * allocation, an address where there is nothing; else itself. */
CUdeviceptr memory_as_seen(CUdeviceptr pointer);
/* The same in short. */
bool memory_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes);
/* Bytes allocated on the device, whole chunks. */
uint64_t memory_allocated(const struct device *device);
/* Frees everything that was allocated in this context (or on the device, if NULL). */
void memory_forget(struct device *device, CUcontext context);

/* ---- for what else is made of blocks ---- */

struct block;
/* A block on a device, in the table and backed, as memory_allocate would make it. The caller is
 * outside the gate and holds no lock. It is `making` until the caller says otherwise. */
CUresult memory_make(struct device *device, uint64_t bytes, struct block **made);
/* Backs a block that stands in the table, inside the gate; what the driver still counts as used is
 * waited for a while. */
CUresult memory_back(struct block *block);
/* Waits for the work of a context and of the current one, as freeing does; nothing runs without a
 * lease, so it returns at once there. False, with something not waited for: a capture is open. */
bool memory_await(CUcontext context, CUresult *result);
/* With blocks_lock held: where the allocation in a block begins that `pointer` points into; false:
 * there is none. */
bool memory_base(const struct block *block, CUdeviceptr pointer, CUdeviceptr *base);
/* With blocks_lock held, but for waiting until nothing of it is being moved: out of the table, and
 * out of the world, unless its memory is kept for the next (allowance.h); the agent knows. */
void memory_discard(struct block *block);

/* ---- for the control thread (moving is in swap.h) ---- */

/* Locks out changes while a new agent is told the totals. */
void memory_freeze(void);
void memory_thaw(void);

void memory_after_fork(void);

#endif
