/* Device memory that can leave: address ranges that stay, backed by chunks that come and go.
 *
 * An allocation is a reserved range of addresses. Its chunks are present (backed by memory of
 * the GPU), out (their bytes in the arena), new (nothing was ever in them) or hollow (nothing is
 * in them any more, decommit.h). Whoever is inside the open gate finds all but those present. Managed
 * memory is the exception: the driver moves its pages when they are touched (managed.h).
 */
#ifndef MOIETY_SHIM_MEM_ALLOC_H
#define MOIETY_SHIM_MEM_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* Whether so many bytes are within the process' limit. If they are not, the agent is asked all the same:
 * it writes down who is refused what. The caller is outside the gate and holds no lock. */
bool alloc_is_allowed(struct device *device, uint64_t bytes);
/* Allocates on the device of the current context; the driver's own error codes. */
CUresult alloc_device(CUdeviceptr *pointer, size_t bytes);
/* The same as managed memory, because the program asked for that; `attach` is its flag. */
CUresult alloc_managed(CUdeviceptr *pointer, size_t bytes, unsigned attach);
/* How alloc_device does it from now on: enum mw_memory_mode. */
void alloc_set_mode(uint32_t wanted);
/* Frees what these returned. False: it is not ours, ask the driver. */
bool alloc_free(CUdeviceptr pointer, CUresult *result);
/* Frees what was put off while a capture was open. */
void alloc_capture_ended(void);
/* Control thread: the same while one is open, once nothing runs on a GPU. */
void alloc_drained(void);
/* What is known of an allocation. */
struct address_info {
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
bool address_info_get(CUdeviceptr pointer, struct address_info *info);
/* What to ask the driver of instead of `pointer`: where that lies in a page of ours and in no
 * allocation, an address where there is nothing; else itself. */
CUdeviceptr address_info_as_seen(CUdeviceptr pointer);
/* The same in short. */
bool address_info_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes);
/* Bytes allocated on the device, whole chunks. */
uint64_t alloc_bytes(const struct device *device);
/* Frees everything that was allocated in this context (or on the device, if NULL). */
void alloc_forget(struct device *device, CUcontext context);

/* ---- for what else is made of extents ---- */

struct extent;
/* An extent on a device, in the table and backed, as alloc_device would make it. The caller is
 * outside the gate and holds no lock. It is `making` until the caller says otherwise. */
CUresult alloc_extent(struct device *device, uint64_t bytes, struct extent **made);
/* Backs an extent that stands in the table, inside the gate; what the driver still counts as used is
 * waited for a while. */
CUresult alloc_map(struct extent *extent);
/* Waits for the work of a context and of the current one, as freeing does; nothing runs without a
 * lease, so it returns at once there. False, with something not waited for: a capture is open. */
bool alloc_await(CUcontext context, CUresult *result);
/* With extent_lock held: where the allocation in an extent begins that `pointer` points into; false:
 * there is none. */
bool address_info_base(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base);
/* With extent_lock held, but for waiting until nothing of it is being moved: out of the table, and
 * out of the world, unless its memory is kept for the next (credit.h); the agent knows. */
void alloc_discard(struct extent *extent);

/* ---- for the control thread (moving is in swap.h) ---- */

/* Locks out changes while a new agent is told the totals. */
void alloc_freeze(void);
void alloc_thaw(void);

void alloc_after_fork(void);

#endif
