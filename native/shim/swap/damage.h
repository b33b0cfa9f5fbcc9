/* Host copies whose bytes are not those that left the GPU. */
#ifndef MOIETY_SHIM_SWAP_DAMAGE_H
#define MOIETY_SHIM_SWAP_DAMAGE_H

#include "shim/swap/transfer.h"

/* A chunk was just restored with wrong bytes: takes its memory away for good. An access to its addresses is an
 * illegal address then, in every context and from every GPU, so nothing is computed from it. The program keeps
 * the rest of its memory, and no new allocation lies in what is lost (mem/slab.c, pool/heap.c). Under extent_lock. */
void damage_end(struct transfer *transfer, struct extent *extent, uint32_t index);

#endif
