/* Takes the memory of unused parts of pools' segments.
 *
 * A segment stays as long as one small piece of it is in use. So that it does not keep memory that is
 * needed elsewhere, chunks that lie wholly in pieces which are free for every stream are given back
 * to the device and are not charged any more. Their addresses stay reserved and are not used again until
 * the segment goes: new ones cost nothing.
 */
#ifndef MOIETY_SHIM_POOL_DECOMMIT_H
#define MOIETY_SHIM_POOL_DECOMMIT_H

#include <stdint.h>

#include "shim/pool/heap.h"

#define DECOMMITS_MAX 32u

/* Extents with chunks that are to be decommitted. Their moves are held, so they stay. */
struct decommits {
    struct extent *extents[DECOMMITS_MAX];
    uint32_t count;
};

/* Takes whole chunks that are free for every stream out of the heap, of segments that are partly in use: at
 * most `most` bytes, and as many extents as fit into *made. Returns the bytes, which decommit_finish gives
 * back. Under pools_lock. */
uint64_t decommit_begin(struct heap *heap, struct segment *segments, uint64_t most,
                        struct decommits *made);
/* Waits until nothing of the extents is being moved, and gives the memory back. No lock is held. */
void decommit_finish(struct decommits *made);

#endif
