/* One piece of device memory behind an address that stays. */
#ifndef MOIETY_SHIM_MEM_CHUNK_H
#define MOIETY_SHIM_MEM_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

/* Where a chunk is. chunk_transition alone writes it. */
enum chunk_state {
    CHUNK_UNTOUCHED, /* has no memory, and nothing was ever in it */
    CHUNK_RESIDENT,  /* has memory of the GPU */
    CHUNK_MOVING,  /* has memory of the GPU, and its bytes are being copied out of it or into it */
    CHUNK_EVICTED, /* has no memory; its bytes are in its host copy, or it holds zeros */
    CHUNK_DECOMMITTED, /* has no memory, is not charged any more, and never comes back */
};

/* What a chunk holds. */
enum chunk_content {
    CHUNK_DATA,  /* anything, or not known */
    CHUNK_ZERO,  /* resident: a scan found only zeros; evicted: it comes back as zeros */
    CHUNK_CLEAN, /* resident: a scan found the bytes of its host copy */
};

/* Two numbers below 2^61 - 1 (swap/content_hash.h). */
struct content_hash {
    uint64_t of[2];
};

struct chunk {
    CUmemGenericAllocationHandle
        handle; /* without memory: 0, or kept for the next (free_cache.h) */
    uint64_t bytes;
    void *host; /* its bytes while it is evicted; while it is resident, a copy that may be stale */
    struct content_hash hash; /* with is_hashed: of its host copy, or of what was scanned last */
    uint32_t scanned_turn; /* the device's lease_count when it was scanned; 0: not since it came */
    enum chunk_state state;
    enum chunk_content content;
    bool busy; /* being scanned or moved: it stays as it is until that has ended */
    bool is_hashed;
    uint8_t changes;      /* how many times in a row a scan found that it had changed */
    bool staging_mapped;  /* mapped in the staging range of its handle as well (vmm_handle.h) */
    bool decommit_wanted; /* nothing is in it any more, and it gets no memory: decommitted soon */
};

/* True while there is memory of the GPU behind the chunk's addresses. */
static inline bool chunk_has_memory(const struct chunk *chunk)
{
    return chunk->state == CHUNK_RESIDENT || chunk->state == CHUNK_MOVING;
}

/* True if the chunk has to get memory before its extent is used. */
static inline bool chunk_lacks_memory(const struct chunk *chunk)
{
    return (chunk->state == CHUNK_UNTOUCHED || chunk->state == CHUNK_EVICTED) &&
           !chunk->decommit_wanted;
}

/* True if it can go from one state to the other. */
bool chunk_may_transition(enum chunk_state from, enum chunk_state to);
/* Changes the state; one that is not allowed ends a debug build. Under extent_lock. */
void chunk_transition(struct chunk *chunk, enum chunk_state to);

/* Backs up to `count` neighbouring chunks with memory of the device, from address `at` on: creates
 * and maps each, then allows access to all of them in one call, because what that costs grows with
 * the calls: to the device itself and to those that `peers` has (bits, by ordinal). Returns how many
 * have memory now; fewer than `count`: *result says why. Their content is undefined, and the
 * caller changes their state. */
uint32_t chunks_map(struct chunk *chunks, uint32_t count, CUdeviceptr at, CUdevice device,
                    uint64_t peers, CUresult *result);
/* Says how those peers may access what is mapped in a range. */
CUresult chunks_access(CUdeviceptr at, uint64_t bytes, uint64_t peers, CUmemAccess_flags flags);
/* Takes the memory away again; nothing may use it any more. The caller changes the state. */
void chunk_unmap(struct chunk *chunk, CUdeviceptr at);

#endif
