/* The messages about host memory for evicted bytes. The form of the comments is that of wire.h. */
#ifndef MOIETY_WIRE_HOST_H
#define MOIETY_WIRE_HOST_H

#include "wire/wire.h"

/* A note about a segment of host memory; the type says which. A segment belongs to one client at a
 * time, comes with its pages present and zero, and keeps its number while its agent lives. */
struct mw_arena {
    struct mw_header header;
    uint64_t segment; /* its number, or 0 */
    uint64_t bytes;   /* of the segment, or wanted; 0 from the agent: none is to be had */
};

/* What the bytes of a process on a GPU are. They do not change until its next lease, but for what it frees. */
struct mw_content {
    struct mw_header header;
    uint32_t gpu;
    uint32_t reserved;
    uint64_t zero_bytes; /* resident zeros: they are evicted first, and need no host memory */
    uint64_t host_bytes; /* in host memory; other evicted bytes are zeros */
};

#endif
