/* Chunks on their way back to the GPU. All under extent_lock. */
#ifndef MOIETY_SHIM_SWAP_RESTORE_H
#define MOIETY_SHIM_SWAP_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/transfer.h"

/* Nothing can be begun for this reason. True: nothing will ever be. */
bool restore_is_hopeless(struct transfer *transfer, CUresult why);
/* Begins what there is room for. True: all is there, or will never be. */
bool restore_begin(struct transfer *transfer);
void restore_end(struct transfer *transfer, CUresult result);

#endif
