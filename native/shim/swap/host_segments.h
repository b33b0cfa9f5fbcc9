/* Segments of host memory that the agent made and lent to this process.
 *
 * They arrive with all their pages. A thread of their own registers them with the driver, piece by
 * piece and ahead of need, so that an eviction finds them ready in the arena.
 */
#ifndef MOIETY_SHIM_SWAP_HOST_SEGMENTS_H
#define MOIETY_SHIM_SWAP_HOST_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/host.h"

/* A new agent: what the last one wanted back is void. */
void host_segments_new_agent(void);

/* ---- for the control thread ---- */

/* The agent lends a segment: maps it and closes `fd`. False: there was none, or it could not be mapped. */
bool host_segments_offer(const struct mw_arena *note, int fd);
/* The agent wants empty segments back, up to `bytes`. */
void host_segments_back(uint64_t bytes);
/* Tells a new agent what the last one lent us. */
void host_segments_tell(void);

/* ---- for host_memory ---- */

/* Registers the next piece of what has arrived; false: there is none. Needs a current context, and
 * the caller holds contexts_lock. */
bool host_segments_register_one(void);

void host_segments_after_fork(void);

#endif
