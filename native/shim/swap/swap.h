/* Moving chunks out of the GPU and back in: what the control thread does while no lease is held.
 *
 * Nothing here waits. Orders and room are taken in, and swap_step carries on whatever can be carried
 * on: it ends copies that are done, reports each chunk as soon as its memory is free, and keeps up to
 * two chunks on their way in each direction. The locks are held for one step at a time, so that the
 * program's threads allocate and free meanwhile.
 */
#ifndef MOIETY_SHIM_SWAP_SWAP_H
#define MOIETY_SHIM_SWAP_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/device.h"
#include "shim/swap/transfer.h"

#define SWAP_NEVER UINT64_MAX

/* Move out at least `bytes`: chunks of zeros first, which cost nothing, then so that as little as
 * possible beyond `bytes` leaves. Reported until the last step. */
void swap_order(struct device *device, uint64_t bytes, transfer_report *report);
/* So many bytes more may be brought back (NULL: to a device that is gone). Whoever says so waits until
 * every byte of all devices is back. */
void swap_grant_budget(struct device *device, uint64_t bytes);
/* Carries on. Returns in how many ns it should be called again: 0 at once, SWAP_NEVER when an order
 * or room has to come first. *restored: there was room, and now every byte is back. */
uint64_t swap_step(bool *restored);
/* Waits for what is on its way and begins nothing new: before contexts are drained. Room is void
 * afterwards, and what was known of the memory's content; orders go on when swap_step is called. */
void swap_settle(void);
/* Orders are void as well: whoever gave them is gone. */
void swap_forget_orders(void);

struct transfer_totals swap_totals(void);
void swap_after_fork(void);

#endif
