/* One piece of device memory behind an address that stays. */
#ifndef MOIETY_SHIM_MEM_CHUNK_H
#define MOIETY_SHIM_MEM_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct chunk {
    CUmemGenericAllocationHandle
        handle; /* not present: 0, or memory kept for the next (free_cache.h) */
    uint64_t bytes;
    void *host;            /* its bytes while it is out, and until they have come back */
    uint32_t scanned_turn; /* the device's turn in which it was looked at; 0: not since it came */
    bool present;
    bool busy;           /* being looked at or copied: it stays as it is until that has ended */
    bool staging_mapped; /* present, and mapped in the window of its allocation as well */
    bool zeros;          /* present: what the look found; out: it comes back as zeros */
    bool decommitted;    /* nothing is in it, and it gets no memory (decommit.h) */
    bool released;       /* hollow, and neither has memory nor is charged any more */
};

/* Backs up to `count` neighbouring chunks with memory of the device, from address `at` on: creates
 * and maps each, then allows access to all of them in one call, because what that costs grows with
 * the calls: to the device itself and to those that `peers` has (bits, by ordinal). Returns how many are
 * present now; fewer than `count`: *result says why. Their content is undefined. */
uint32_t chunks_map(struct chunk *chunks, uint32_t count, CUdeviceptr at, CUdevice device,
                    uint64_t peers, CUresult *result);
/* Says how those peers may access what is mapped in a range. */
CUresult chunks_access(CUdeviceptr at, uint64_t bytes, uint64_t peers, CUmemAccess_flags flags);
/* Takes the memory away again; nothing may use it any more. */
void chunk_unmap(struct chunk *chunk, CUdeviceptr at);

#endif
