/* Chunks on their way out of the GPU. */
#ifndef MOIETY_SHIM_SWAP_EVICT_H
#define MOIETY_SHIM_SWAP_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/transfer.h"

/* Begins scans and copies for the oldest order, and ends the order when nothing of it is left to do. No lock
 * is held: host memory may have to come from the agent. */
void evict_begin(struct transfer *transfer);

/* ---- under extent_lock ---- */

/* The oldest copy has ended. */
void evict_end(struct transfer *transfer, bool succeeded);
/* The scan has ended. */
void evict_end_scan(struct transfer *transfer, bool succeeded);
/* Reports the end of the oldest order; `bytes` were evicted since the last report. */
void evict_end_order(struct transfer *transfer, uint64_t bytes);

/* Begins to scan chunks that were not scanned since the last lease; false: there are none, or it cannot scan. */
bool evict_scan(struct transfer *transfer);

#endif
