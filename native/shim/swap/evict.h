/* Chunks on their way out of the GPU. All under extent_lock. */
#ifndef MOIETY_SHIM_SWAP_EVICT_H
#define MOIETY_SHIM_SWAP_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/transfer.h"

/* Begins what can be begun of the oldest order, and ends it when nothing of it is left to do. May
 * drop the lock for a while. */
void evict_begin(struct transfer *transfer);
void evict_end(struct transfer *transfer, bool succeeded);
void evict_end_scan(struct transfer *transfer, bool succeeded);
/* The oldest order is carried out as far as it can be, with `bytes` gone since the last report. */
void evict_end_order(struct transfer *transfer, uint64_t bytes);

#endif
