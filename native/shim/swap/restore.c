#include "shim/swap/restore.h"

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/swap/host_arena.h"

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
        *move = (struct move){extent, index, NULL, chunk->host, move->began_ns};
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
        chunk_transition(chunk, CHUNK_MOVING);
        extent_begin_busy(extent, index);
    } else {
        chunk_transition(chunk, CHUNK_RESIDENT);
    }
    extent->device->resident_bytes += chunk->bytes;
    extent->device->restore_budget -= chunk->bytes;
    return CUDA_SUCCESS;
}

void restore_end(struct transfer *transfer, CUresult result)
{
    struct move move = transfer->in.moves[transfer->in.first];
    struct chunk *chunk = &move.extent->chunks[move.index];
    transfer_end(&transfer->in, move.copied ? chunk->bytes : 0, &transfer_totals.restored_ns);
    if (result != CUDA_SUCCESS) {
        transfer_unmap(transfer, move.extent, move.index);
        transfer->device->restore_budget += chunk->bytes;
        put_off(transfer, result);
    } else {
        transfer->failures = 0;
        if (chunk->host) {
            host_arena_give_back(chunk->host, chunk->bytes);
            transfer_totals.restored_bytes += chunk->bytes;
        }
        chunk->host = NULL;
        chunk->content = CHUNK_DATA;
        chunk_transition(chunk, CHUNK_RESIDENT);
    }
    extent_end_busy(move.extent, move.index);
}

bool restore_begin(struct transfer *transfer)
{
    bool missing = false;
    while (now_ns() >= transfer->retry_ns) {
        struct victim victim =
            victim_choose_to_restore(transfer->device, transfer->device->restore_budget, &missing);
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
