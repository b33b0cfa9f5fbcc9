#include "shim/swap/restore.h"

#include <string.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/swap/clean.h"
#include "shim/swap/content_hash.h"
#include "shim/swap/damage.h"

#define FAILURES_MAX 6 /* in a row, until it is said; tried again with longer pauses */

/* Whether the contexts of this process are of no more use, to it as to us. Nothing else is asked than a
 * stream of our own: a capture may be open. */
static bool is_broken(const struct transfer *transfer)
{
    CUresult result = DRIVER(cuStreamSynchronize)(transfer->copy_streams.in);
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

/* Something did not come: its bytes stay in host memory, and are tried again. A program whose
 * context is broken gets its lease without them: all it can get from the driver is that error. */
static void put_off(struct transfer *transfer, CUresult result)
{
    uint64_t pause = NO_ROOM_NS;
    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        uint32_t failures = ++transfer->failures;
        pause <<= failures < FAILURES_MAX ? failures : FAILURES_MAX;
        if (failures == FAILURES_MAX) {
            message_print("end the program if it does not continue",
                          "could not bring device memory back: error "
                          "%d; its bytes are kept in host memory and tried again",
                          (int)result);
        }
    }
    transfer->retry_ns = now_ns() + pause;
}

bool restore_is_hopeless(struct transfer *transfer, CUresult why)
{
    put_off(transfer, why);
    return transfer->failures >= FAILURES_MAX;
}

/* Behind the copy of a chunk whose hash is known, for which `done` is recorded: hashes what has come, beside the
 * next copies, and records `done` anew. False: it cannot. */
static bool begin_hash(struct transfer *transfer, const struct move *move, CUdeviceptr at,
                       CUevent done)
{
    CUstream stream = transfer->copy_streams.hash;
    const struct chunk *chunk = &move->extent->chunks[move->index];
    struct zero_scan *zero_scan = &transfer->copy_streams.zero_scan;
    uint32_t slot = transfer_slot(&transfer->in, move);
    if (!chunk->host || !chunk->is_hashed || !content_hash_is_possible(zero_scan)) {
        return false;
    }
    zero_scan_add(zero_scan, slot, at, chunk->bytes);
    if (DRIVER(cuStreamWaitEvent)(stream, done, 0) == CUDA_SUCCESS &&
        content_hash_run(zero_scan, slot, 1, stream) == CUDA_SUCCESS &&
        DRIVER(cuEventRecord)(done, stream) == CUDA_SUCCESS) {
        return true;
    }
    DRIVER(cuStreamSynchronize)(stream); /* nothing of it may run when the chunk's memory goes */
    return false;
}

enum came {
    CAME_UNKNOWN, /* it was not hashed */
    CAME_TRUE,
    CAME_WRONG, /* its hash is not that of what left */
};

static enum came what_came(const struct transfer *transfer, const struct move *move, uint32_t slot)
{
    const struct chunk *chunk = &move->extent->chunks[move->index];
    struct content_hash hash;
    if (!move->hashed || !content_hash_get(&transfer->copy_streams.zero_scan, slot, &hash)) {
        return CAME_UNKNOWN;
    }
    return memcmp(&hash, &chunk->hash, sizeof(hash)) == 0 ? CAME_TRUE : CAME_WRONG;
}

static CUresult begin_restore(struct transfer *transfer, struct extent *extent, uint32_t index)
{
    struct copy_streams *copy_streams = &transfer->copy_streams;
    struct chunk *chunk = &extent->chunks[index];
    CUevent done;
    CUresult result = extent_map_chunk(extent, index);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (chunk->state == CHUNK_EVICTED) {
        result = extent_ensure_mapped(extent, index);
        if (result != CUDA_SUCCESS) {
            extent_unmap_chunk(extent, index);
            return result;
        }
        CUdeviceptr at = extent_address(extent, index);
        struct move *move = transfer_begin(&transfer->in, copy_streams->in_done, &done);
        *move = (struct move){extent, index, NULL, chunk->host, false, move->began_ns};
        result = chunk->host
                     ? DRIVER(cuMemcpyHtoDAsync_v2)(at, chunk->host, chunk->bytes, copy_streams->in)
                     : DRIVER(cuMemsetD32Async)(at, 0, chunk->bytes / sizeof(uint32_t),
                                                copy_streams->in);
        if (result == CUDA_SUCCESS) {
            result = DRIVER(cuEventRecord)(done, copy_streams->in);
        }
        if (result != CUDA_SUCCESS) {
            DRIVER(cuStreamSynchronize)(copy_streams->in);
            transfer->in.count--;
            extent_unmap_chunk(extent, index);
            return result;
        }
        move->hashed = begin_hash(transfer, move, at, done);
        chunk_transition(chunk, CHUNK_MOVING);
        extent_begin_busy(extent, index);
    } else {
        chunk_transition(chunk, CHUNK_RESIDENT);
    }
    extent->device->resident_bytes += chunk->bytes;
    extent->device->restore_budget -= chunk->bytes;
    return CUDA_SUCCESS;
}

static void end_well(struct transfer *transfer, const struct move *move, enum came came)
{
    struct chunk *chunk = &move->extent->chunks[move->index];
    bool is_lost = !chunk->host && chunk->content != CHUNK_ZERO;
    transfer_totals.restored_bytes += chunk->host ? chunk->bytes : 0;
    if (came == CAME_WRONG || is_lost) {
        damage_end(transfer, move->extent, move->index);
        return;
    }
    clean_restored(chunk, came == CAME_TRUE);
    chunk_transition(chunk, CHUNK_RESIDENT);
}

void restore_end(struct transfer *transfer, CUresult result)
{
    struct move move = transfer->in.moves[transfer->in.first];
    uint32_t slot = transfer_slot(&transfer->in, &transfer->in.moves[transfer->in.first]);
    struct chunk *chunk = &move.extent->chunks[move.index];
    transfer_end(&transfer->in, move.copied ? chunk->bytes : 0, &transfer_totals.restored_ns);
    if (result != CUDA_SUCCESS) {
        transfer_unmap(transfer, move.extent, move.index);
        transfer->device->restore_budget += chunk->bytes;
        put_off(transfer, result);
    } else {
        transfer->failures = 0;
        end_well(transfer, &move, what_came(transfer, &move, slot));
    }
    extent_end_busy(move.extent, move.index);
}

bool restore_begin(struct transfer *transfer)
{
    bool missing = false;
    while (now_ns() >= transfer->retry_ns) {
        struct victim victim = victim_choose_to_restore(&transfer->coming, transfer->device,
                                                        transfer->device->restore_budget, &missing);
        if (!victim.extent || !transfer_has_place(&transfer->in)) {
            break;
        }
        CUresult result = begin_restore(transfer, victim.extent, victim.index);
        if (result != CUDA_SUCCESS) {
            put_off(transfer, result);
        }
    }
    if (transfer->failures >= FAILURES_MAX && !transfer->in.count && is_broken(transfer)) {
        return true;
    }
    return now_ns() >= transfer->retry_ns && !missing && !transfer->in.count;
}
