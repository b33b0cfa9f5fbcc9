/* Parts of pools' segments without memory.
 *
 * A segment stays as long as one small piece of it is in use. So that it does not keep memory that is
 * needed elsewhere, chunks that lie wholly in pieces which are free for everybody are given back to
 * the device and are not charged any more. Their addresses stay reserved and are not used again until
 * the segment goes: new ones cost nothing.
 */
#ifndef MOIETY_SHIM_POOL_DECOMMIT_H
#define MOIETY_SHIM_POOL_DECOMMIT_H

#include <stdint.h>

#include "shim/pool/heap.h"

#define DECOMMITS_MAX 32u

/* Blocks with chunks that are hollow and may still have memory. They are held, so they stay. */
struct decommits {
    struct extent *extents[DECOMMITS_MAX];
    uint32_t count;
};

/* Under pools_lock: takes what is free for everybody out of the pieces, whole chunks of segments that
 * are partly in use, `most` bytes and as many extents as fit into *made at most. Returns the bytes,
 * which have yet to be released. */
uint64_t decommit_begin(struct heap *heap, struct segment *segments, uint64_t most,
                        struct decommits *made);
/* Without locks, for what is being moved is waited for: gives the memory back, lets the extents go. */
void decommit_finish(struct decommits *made);

#endif
