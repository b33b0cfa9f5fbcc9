#include "shim/peers.h"

#include "shim/blocks.h"
#include "shim/gate.h"
#include "shim/real.h"
#include "shim/streams.h"

/* What is present of a block; the rest is opened when it is mapped. */
static CUresult open_block(const struct block *block, uint64_t peers)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t i = 0;
    while (i < block->chunk_count && result == CUDA_SUCCESS) {
        CUdeviceptr at = block->base + (uint64_t)i * block->chunks[0].bytes;
        uint64_t bytes = 0;
        while (i < block->chunk_count && block->chunks[i].present) {
            bytes += block->chunks[i++].bytes;
        }
        result = bytes ? chunks_allow(at, bytes, peers) : CUDA_SUCCESS;
        i += bytes == 0;
    }
    return result;
}

CUresult peers_allow(struct device *owner, CUdevice peer)
{
    if (peer < 0 || peer >= 64) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    uint64_t bit = 1ull << peer;
    CUresult result = CUDA_SUCCESS;
    LOCK_SCOPE(&blocks_lock);
    bool known = owner->peers & bit;
    for (size_t i = 0; !known && i < blocks_count() && result == CUDA_SUCCESS; i++) {
        const struct block *block = blocks_get(i);
        bool is_mine = block->device == owner && !block->managed && !block->allocation;
        result = is_mine ? open_block(block, bit) : CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        owner->peers |= bit;
    }
    return result;
}

static bool await_device(const struct device *device, CUresult *result)
{
    CUcontext contexts[CONTEXTS_MAX];
    bool waited = true;
    uint32_t count = device_contexts(device, contexts);
    for (uint32_t i = 0; i < count && waited && *result == CUDA_SUCCESS; i++) {
        if (REAL(cuCtxPushCurrent_v2)(contexts[i]) == CUDA_SUCCESS) {
            waited = streams_synchronise(result);
            device_pop();
        }
    }
    return waited;
}

bool peers_await(const struct device *owner, CUresult *result)
{
    struct mw_slot *slot = gate_block();
    bool waited = true;
    for (struct device *d = device_next(NULL); d && waited; d = device_next(d)) {
        if (owner->peers >> d->ordinal & 1) {
            waited = await_device(d, result);
        }
    }
    gate_unblock(slot);
    return waited;
}
