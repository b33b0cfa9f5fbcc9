/* Chunks on their way back to the GPU. */
#include "shim/arena.h"
#include "shim/mover.h"
#include "shim/real.h"
#include "shim/say.h"

#define FAILURES_MAX 6 /* in a row, until it is said; tried again with longer pauses */

/* Whether the contexts of this process are of no more use, to it as to us. Nothing else is asked than a
 * stream of our own: a capture may be open. */
static bool is_broken(const struct mover *mover)
{
    CUresult result = REAL(cuStreamSynchronize)(mover->lane.in);
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

/* Something did not come: its bytes stay in host memory, and are tried again. A program whose
 * context is broken gets its lease without them: all it can get from the driver is that error. */
static void put_off(struct mover *mover, CUresult result)
{
    uint64_t pause = NO_ROOM_NS;
    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        uint32_t failures = ++mover->failures;
        pause <<= failures < FAILURES_MAX ? failures : FAILURES_MAX;
        if (failures == FAILURES_MAX) {
            say("end the program if it does not go on",
                "could not bring device memory back: error "
                "%d; its bytes are kept in host memory and tried again",
                (int)result);
        }
    }
    mover->retry_ns = now_ns() + pause;
}

bool coming_is_hopeless(struct mover *mover, CUresult why)
{
    put_off(mover, why);
    return mover->failures >= FAILURES_MAX;
}

static CUresult begin_coming(struct mover *mover, struct block *block, uint32_t index)
{
    struct lane *lane = &mover->lane;
    struct chunk *chunk = &block->chunks[index];
    CUevent done;
    CUresult result = block_back(block, index);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (chunk->host || chunk->zeros) {
        result = block_reach(block, index);
        if (result != CUDA_SUCCESS) {
            block_unback(block, index);
            return result;
        }
        CUdeviceptr at = block_at(block, index);
        struct move *move = mover_begin(&mover->in, lane->in_done, &done);
        *move = (struct move){block, index, NULL, chunk->host, move->began_ns};
        result = chunk->host
                     ? REAL(cuMemcpyHtoDAsync_v2)(at, chunk->host, chunk->bytes, lane->in)
                     : REAL(cuMemsetD32Async)(at, 0, chunk->bytes / sizeof(uint32_t), lane->in);
        if (result == CUDA_SUCCESS) {
            result = REAL(cuEventRecord)(done, lane->in);
        }
        if (result != CUDA_SUCCESS) {
            REAL(cuStreamSynchronize)(lane->in);
            mover->in.count--;
            block_unback(block, index);
            return result;
        }
        block_begin(block, index);
    }
    block->device->resident_bytes += chunk->bytes;
    block->device->credit_bytes -= chunk->bytes;
    return CUDA_SUCCESS;
}

void coming_end(struct mover *mover, CUresult result)
{
    struct move move = mover->in.moves[mover->in.first];
    struct chunk *chunk = &move.block->chunks[move.index];
    mover_end(&mover->in, move.copied ? chunk->bytes : 0, &mover_moved.restored_ns);
    if (result != CUDA_SUCCESS) {
        mover_take_off(mover, move.block, move.index);
        mover->device->credit_bytes += chunk->bytes;
        put_off(mover, result);
    } else {
        mover->failures = 0;
        if (chunk->host) {
            arena_give_back(chunk->host, chunk->bytes);
            mover_moved.restored_bytes += chunk->bytes;
        }
        chunk->host = NULL;
        chunk->zeros = false;
    }
    block_end(move.block, move.index);
}

bool coming_begin(struct mover *mover)
{
    bool missing = false;
    while (now_ns() >= mover->retry_ns) {
        struct choice choice = choose_coming(mover->device, mover->device->credit_bytes, &missing);
        if (!choice.block || !mover_has_place(&mover->in)) {
            break;
        }
        CUresult result = begin_coming(mover, choice.block, choice.index);
        if (result != CUDA_SUCCESS) {
            put_off(mover, result);
        }
    }
    if (mover->failures >= FAILURES_MAX && !mover->in.count && is_broken(mover)) {
        return true;
    }
    return now_ns() >= mover->retry_ns && !missing && !mover->in.count;
}
