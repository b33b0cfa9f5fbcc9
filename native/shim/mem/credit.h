/* Bytes that may be allocated without asking the agent, while nobody else needs them.
 *
 * The agent gives them to whoever asks often, counts them as allocated and resident, and takes them back
 * before they could be in anybody's way; it is told of each use, so that it knows what the program has.
 * What the program frees becomes part of them again, and its memory may stay (free_cache.h). Nobody used
 * them for a moment: they go back by themselves.
 */
#ifndef MOIETY_SHIM_MEM_CREDIT_H
#define MOIETY_SHIM_MEM_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/device.h"

struct extent;

/* On how many devices there is one: nothing is looked at where there is none. */
extern _Atomic uint32_t credits_granted;

/* ---- with extent_lock held ---- */

/* Counts so many bytes of the allowance as allocated; false: there are not so many. Spare memory that
 * it needs for that is released. */
bool credit_take(struct device *device, uint64_t bytes);
/* The same for a spare extent of this size and with so many chunks, which is the caller's from now on;
 * NULL: there is none. Its chunks have memory, but are mapped nowhere: the caller is inside the gate, and
 * maps them before it leaves. */
struct extent *credit_reuse(struct device *device, uint64_t span, uint32_t chunks);
/* Bytes that are freed, and no longer on the GPU, become part of it; false: they do not. */
bool credit_put(struct device *device, uint64_t bytes);
/* The same of an extent with its memory, which is out of the table: it is kept, or still the caller's. */
bool credit_keep(struct extent *extent);
/* All are over: the agent that gave them is gone, and the next one knows of none. */
void credits_forget(void);

/* ---- without ---- */

/* The driver ran out: spare memory is its again. */
void credit_drop_cached(struct device *device);
/* It is over, for the agent as well: the device is gone. */
void credit_forget(struct device *device);

/* ---- for the control thread ---- */

/* MW_CREDIT_GRANT: so many bytes more. */
void credit_grant(uint32_t gpu, uint64_t bytes, uint64_t most_bytes);
/* MW_CREDIT_REVOKE: gives back what is left. */
void credit_revoke(uint32_t gpu);
/* The same on all devices, before it is said that nothing runs. */
void credits_end(void);
/* Gives back what nobody used for a moment; in how many ns to look again, UINT64_MAX: never. */
uint64_t credits_expire(void);
void credits_after_fork(void);

#endif
