/* One segment of host memory that the agent made: its mapping, its pages, its registration with the driver. */
#ifndef MOIETY_SHIM_SWAP_HOST_SEGMENT_H
#define MOIETY_SHIM_SWAP_HOST_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/host.h"

/* Registered with one call: no chunk is larger, and longer ones would hold up a drain. */
#define HOST_PIECE_BYTES (64ull << 20)

struct segment {
    struct segment *next;
    uint64_t number;
    uint64_t bytes;
    uint64_t mapped;     /* from the start: their page tables are filled in */
    uint64_t registered; /* from the start: these are in the arena */
    unsigned char *base;
};

/* Maps what the agent lends with `fd`; NULL: it could not be mapped. */
struct segment *segment_map(const struct mw_arena *note, int fd);
static inline bool segment_is_ready(const struct segment *segment)
{
    return segment->registered == segment->bytes;
}
/* Fills in the page tables of the next piece. */
void segment_prepare(struct segment *segment);
/* Registers the next piece with the driver; its length in bytes. Needs a current context; the caller adds it to
 * `registered` under its lock. */
uint64_t segment_register(struct segment *segment);
/* Takes the last piece from the driver. Without a context nothing is registered any more. */
void segment_unregister(struct segment *segment);
void segment_unmap(struct segment *segment);

#endif
