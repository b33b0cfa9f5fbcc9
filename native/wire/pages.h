/* The memory that the shim and the agent share besides their messages (wire.h): each has its page by
 * a descriptor. The form of the comments is that of wire.h. */
#ifndef MOIETY_WIRE_PAGES_H
#define MOIETY_WIRE_PAGES_H

#include <stdint.h>

#define MW_SLOTS_MAX 1024u   /* threads of one process inside the gate */
#define MW_LEASE_BYTES 4096u /* size of the lease page's memfd */

/* The lease page: only the agent writes it; every gated call reads it. */
struct mw_lease {
    uint32_t word; /* epoch << 1 | open */
    uint32_t reserved;
};
#define MW_LEASE_OPEN 1u

/* One for each thread that passed the gate; only that thread writes it. */
struct mw_slot {
    uint32_t depth;   /* calls of this thread that are inside the driver */
    uint32_t blocked; /* it waits inside a synchronising call */
    uint64_t passes;  /* gated calls so far */
    uint32_t tid;     /* 0: free */
    uint32_t reserved[11];
};

/* The counters' memfd: the client writes it; the agent reads it with pread. */
struct mw_counters {
    uint64_t handoffs;      /* leases granted */
    uint64_t drained_ns;    /* spent in draining */
    uint64_t evicted_bytes; /* copied to host memory */
    uint64_t evicted_ns;
    uint64_t restored_bytes;
    uint64_t restored_ns;
    uint64_t waited_ns;     /* threads at the closed gate, summed */
    uint64_t unknown_calls; /* calls of entry points that the shim does not know */
    uint64_t closed_passes; /* launches seen after a revoke was answered: always 0 */
    uint64_t zero_bytes;    /* left the GPU without being copied: they were zeros */
    uint64_t host_bytes;   /* in host memory now, of all GPUs, without copies of what is resident */
    uint64_t host_counted; /* 1: the client counts host_bytes; older clients leave it 0 */
    uint64_t reserved[4];
    struct mw_slot slots[MW_SLOTS_MAX];
};

#endif
