/* Chunks on their way back to the GPU. All under extent_lock. */
#ifndef MOIETY_SHIM_SWAP_RESTORE_H
#define MOIETY_SHIM_SWAP_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/transfer.h"

/* Nothing can be restored now for this reason. True: nothing ever will be. */
bool restore_is_hopeless(struct transfer *transfer, CUresult why);
/* Begins to restore what the budget allows. True: nothing is missing, or it will never come back. */

bool restore_begin(struct transfer *transfer);
/* The oldest copy has ended. */
void restore_end(struct transfer *transfer, CUresult result);

#endif
