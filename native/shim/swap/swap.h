/* Moving chunks out of the GPU and back in: what the control thread does while no lease is held.
 *
 * Orders to evict and budgets to restore are noted, and swap_step carries on with them: it ends copies that
 * are done, reports each chunk as soon as its memory is free, and begins more copies. It waits for no copy.
 * The locks are held for one step at a time, so that the program's threads allocate and free meanwhile.
 */
#ifndef MOIETY_SHIM_SWAP_SWAP_H
#define MOIETY_SHIM_SWAP_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/device.h"
#include "shim/swap/content.h"
#include "shim/swap/transfer.h"

#define SWAP_NEVER UINT64_MAX

/* Loads what evictions from a device need, before memory is short and while no lock is held. */
void swap_prepare(struct device *device);
/* Orders the eviction of at least `bytes`: chunks of zeros first, which cost nothing, then so that as little
 * as possible beyond `bytes` is evicted. `report` is called until the order is done. */
void swap_order(struct device *device, uint64_t bytes, transfer_report *report);
/* Allows `bytes` more to be restored; device NULL: one that is gone. The agent waits until every byte of all
 * devices is back. */
void swap_grant_budget(struct device *device, uint64_t bytes);
/* Scans what the device's memory is, and waits for that; `tell` is called with the result, under extent_lock. Nothing
 * of this process runs, and it has no orders. */
void swap_count_content(struct device *device,
                        void (*tell)(struct device *device, struct content content));
/* Carries on. Returns in how many ns it should be called again: 0 at once, SWAP_NEVER when an order or a
 * budget has to come first. *restored: there was a budget, and now every byte is back. */
uint64_t swap_step(bool *restored);
/* Waits for all copies and begins no new one, before contexts are drained. Budgets and scans are void
 * afterwards; orders go on when swap_step is called. */
void swap_settle(void);
/* Orders are void: the agent that gave them is gone. */
void swap_forget_orders(void);

/* What was moved since the start of the process. */
struct transfer_totals swap_totals(void);
void swap_after_fork(void);

#endif
