/* Chunks whose bytes are the same as in their host copy are clean: they leave without being copied.
 *
 * A chunk that came back keeps its host copy while it is resident. Before it leaves again, its hash tells whether
 * the copy is still true. A copy of a resident chunk is spare: whatever needs its host memory takes it, and then
 * the chunk counts as data. All under extent_lock, where nothing else is said.
 */
#ifndef MOIETY_SHIM_SWAP_CLEAN_H
#define MOIETY_SHIM_SWAP_CLEAN_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/extent.h"

enum clean_mode {
    CLEAN_OFF,    /* every chunk with data is copied */
    CLEAN_ON,     /* clean chunks are not copied */
    CLEAN_VERIFY, /* clean chunks are copied all the same, and both copies compared */
};

/* Reads MOIETY_CLEAN; it is CLEAN_ON without it. In the program's own thread, before the control thread begins: a program
 * may change its environment at any time, and then no other thread may read it. */
void clean_read_mode(void);
/* As it was read. Needs no lock. */
enum clean_mode clean_mode(void);
/* True if memory that is read so fast is worth hashing beside a link that copies so fast, in bytes a second; 0: that is
 * not known. A chunk is read for each move, to save one of its two copies if it did not change. */
bool clean_is_worth_it(double memory_rate, double link_rate);
/* True if a chunk that may leave now should be hashed: others than this program cannot have written it, and it
 * does not change each time. */
bool clean_wants_hash(const struct extent *extent, const struct chunk *chunk);
/* A scan in this turn has ended. `hash`: of the chunk's bytes; NULL: it is not known. */
void clean_scanned(struct chunk *chunk, uint32_t turn, bool is_zero,
                   const struct content_hash *hash);
/* The chunk leaves without a scan in this turn: nothing is known of its bytes. */
void clean_not_scanned(struct chunk *chunk);
/* True if the chunk can be evicted without a copy, and comes back as it was. */
static inline bool clean_costs_nothing(const struct chunk *chunk)
{
    return chunk->content == CHUNK_ZERO || (chunk->content == CHUNK_CLEAN && chunk->host);
}
/* The chunk is about to leave on the strength of its host copy, or to be compared with it: the copy is needed. */
void clean_use_copy(struct chunk *chunk);
/* The chunk stays on the GPU after all: its host copy, if it has one, is spare again. */
void clean_stays(struct chunk *chunk);
/* The chunk is back. `true_copy`: its host copy has its bytes, and is kept; otherwise it is given back. */
void clean_restored(struct chunk *chunk, bool true_copy);
/* Gives spare copies back so that `bytes` of host memory in one piece are free. False, and no copy is given back,
 * if no piece can have them. No lock is held. */
bool clean_make_room(uint64_t bytes);
/* Gives the copies in a part of host memory back that is only used by spare ones. No lock is held. */
void clean_drop_within(const unsigned char *base, uint64_t bytes);

#endif
