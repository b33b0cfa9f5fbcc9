/* What memory is charged with.
 *
 * The agent is asked before memory is made, and told when it is gone. `flags` are MW_ALLOC_*: what
 * kind of bytes they are, the same in the question and at the end.
 *
 * Credit is memory that may be allocated without asking, while no other program needs it. The agent
 * gives it to programs that ask often, counts it as allocated and resident, and revokes it before
 * another program needs it. It is told of each use, so that it knows what the program has. What the
 * program frees becomes credit again, and its memory may stay (free_cache.h). Credit that is unused
 * for a moment is given back.
 */
#ifndef MOIETY_SHIM_MEM_ACCOUNTING_H
#define MOIETY_SHIM_MEM_ACCOUNTING_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

struct extent;

/* Charges bytes that this process is about to have. CUDA_SUCCESS: they are counted;
 * CUDA_ERROR_OUT_OF_MEMORY: its limit or the GPU has no room for them. Waits for the agent's answer where
 * credit does not cover them, so the caller is outside the gate and holds no lock. */
CUresult accounting_charge(struct device *device, uint64_t bytes, uint32_t flags);
/* Charged bytes are gone; `resident` of them were on the GPU. With extent_lock held. */
void accounting_release(struct device *device, uint64_t bytes, uint64_t resident, uint32_t flags);
/* The agent agreed that bytes of a GPU stay there: they count as such from now on. Control thread. */
void accounting_pinned(uint32_t gpu, uint64_t bytes);
/* Bytes that the agent agreed to can leave all the same. With extent_lock held. */
void accounting_unpin(uint32_t gpu, uint64_t bytes);
/* The agent admitted bytes that were asked for: they count from now on. Control thread. */
void accounting_admitted(uint32_t gpu, uint64_t bytes, uint32_t flags);
/* device_detach_unused, and the device's credit ends. */
void accounting_detach_unused(struct device *device);

/* ---- credit ---- */

/* The number of devices that have credit; nothing is looked at where there is none. */
extern _Atomic uint32_t credits_granted;

/* The next five with extent_lock held. */

/* Counts bytes of the credit as allocated; false: the credit does not cover them. Cached memory that it
 * needs for that is released. */
bool credit_take(struct device *device, uint64_t bytes);
/* The same for a cached extent of this size and number of chunks, which is the caller's from now on; NULL:
 * there is none. Its chunks have memory, but are mapped nowhere: the caller is inside the gate, and maps
 * them before it leaves. */
struct extent *credit_reuse(struct device *device, uint64_t span, uint32_t chunks);
/* Bytes that are freed, and no longer on the GPU, become credit; false: they do not. */
bool credit_put(struct device *device, uint64_t bytes);
/* The same of an extent with its memory, which is out of the table: it is cached, or still the caller's. */
bool credit_keep(struct extent *extent);
/* All credit is over: the agent that gave it is gone, and the next one knows of none. */
void credits_forget(void);

/* The driver ran out of memory: cached memory is its again. No lock is held. */
void credit_drop_cached(struct device *device);

/* ---- for the control thread ---- */

/* The agent grants `bytes` more; no more than `most_bytes` may be unused at a time. */
void credit_grant(uint32_t gpu, uint64_t bytes, uint64_t most_bytes);
/* The agent revokes what is left. */
void credit_revoke(uint32_t gpu);
/* Gives back all credit, before it is said that nothing runs. */
void credits_end(void);
/* Gives back credit that was unused for a moment; in how many ns to look again, UINT64_MAX: never. */
uint64_t credits_expire(void);
void credits_after_fork(void);

#endif
