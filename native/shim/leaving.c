/* Chunks on their way out of the GPU. */
#include <string.h>

#include "shim/arena.h"
#include "shim/mover.h"
#include "shim/real.h"

#define AT_ONCE 16u /* chunks, until messages are looked at */

static void begin_look(struct mover *mover)
{
    struct zeros *zeros = &mover->lane.zeros;
    uint32_t found = choose_unseen(mover->device, mover->looks, ZEROS_AT_ONCE);
    uint32_t count = 0;
    for (uint32_t i = 0; i < found; i++) {
        struct choice look = mover->looks[i];
        struct chunk *chunk = &look.block->chunks[look.index];
        if (block_reach(look.block, look.index) != CUDA_SUCCESS) {
            chunk->looked = mover->device->turn; /* it has to be copied, should that work better */
            chunk->zeros = false;
            continue;
        }
        zeros_ask(zeros, count, block_at(look.block, look.index), chunk->bytes);
        mover->looks[count++] = look;
    }
    if (!count) {
        return;
    }
    if (zeros_look(zeros, count, mover->lane.in) != CUDA_SUCCESS ||
        REAL(cuEventRecord)(mover->lane.looked, mover->lane.in) != CUDA_SUCCESS) {
        REAL(cuStreamSynchronize)(mover->lane.in);
        zeros->function = NULL; /* then everything is copied */
        return;
    }
    mover->look_count = count;
    for (uint32_t i = 0; i < count; i++) {
        block_begin(mover->looks[i].block, mover->looks[i].index);
    }
}

void leaving_end_look(struct mover *mover, bool succeeded)
{
    for (uint32_t i = 0; i < mover->look_count; i++) {
        struct choice *look = &mover->looks[i];
        struct chunk *chunk = &look->block->chunks[look->index];
        chunk->looked = mover->device->turn;
        chunk->zeros = succeeded && zeros_found(&mover->lane.zeros, i);
        block_end(look->block, look->index);
    }
    mover->look_count = 0;
}

void leaving_end_order(struct mover *mover, uint64_t bytes)
{
    bool failed = mover->failed;
    mover->failed = false;
    mover->order_count--;
    memmove(mover->orders, mover->orders + 1, mover->order_count * sizeof(mover->orders[0]));
    mover->report(mover->device, bytes, true, failed);
}

/* Host memory may have to be registered or to come from the agent first: meanwhile only this chunk
 * is busy, and the lock is free. */
static void *take_host(struct block *block, uint32_t index)
{
    uint64_t bytes = block->chunks[index].bytes;
    block_begin(block, index);
    lock_drop(&blocks_lock);
    void *host = arena_take(bytes);
    lock_take(&blocks_lock);
    if (!host) {
        block_end(block, index);
    }
    return host;
}

static bool begin_leaving(struct mover *mover, struct block *block, uint32_t index)
{
    struct lane *lane = &mover->lane;
    struct chunk *chunk = &block->chunks[index];
    CUevent done;
    void *host = block_reach(block, index) == CUDA_SUCCESS ? take_host(block, index) : NULL;
    if (!host) {
        return false;
    }
    struct move *move = mover_begin(&mover->out, lane->out_done, &done);
    move->block = block;
    move->index = index;
    move->host = host;
    CUresult result =
        REAL(cuMemcpyDtoHAsync_v2)(host, block_at(block, index), chunk->bytes, lane->out);
    if (result == CUDA_SUCCESS) {
        result = REAL(cuEventRecord)(done, lane->out);
    }
    if (result != CUDA_SUCCESS) {
        REAL(cuStreamSynchronize)(lane->out); /* the copy may be under way */
        arena_give_back(host, chunk->bytes);
        mover->out.count--;
        block_end(block, index);
    }
    return result == CUDA_SUCCESS;
}

void leaving_end(struct mover *mover, bool succeeded)
{
    struct move move = mover->out.moves[mover->out.first];
    struct chunk *chunk = &move.block->chunks[move.index];
    mover_end(&mover->out, chunk->bytes, &mover_moved.evicted_ns);
    if (!succeeded) {
        arena_give_back(move.host, chunk->bytes);
        mover->failed = true;
        block_end(move.block, move.index);
        return;
    }
    mover_take_off(mover, move.block, move.index);
    chunk->host = move.host;
    chunk->zeros = false;
    mover_moved.evicted_bytes += chunk->bytes;
    uint64_t bytes = chunk->bytes;
    block_end(move.block, move.index);
    if (mover->order_count && !mover->orders[0] && !mover->out.count) {
        leaving_end_order(mover, bytes);
    } else {
        mover->report(mover->device, bytes, false, false);
    }
}

/* False: nothing more can be begun now. */
static bool begin_one(struct mover *mover, uint64_t *dropped)
{
    uint64_t *order = &mover->orders[0];
    bool can_look = zeros_can_look(&mover->lane.zeros);
    struct choice choice = choose_leaving(mover->device, *order, can_look);
    if (can_look && choice.unseen && !mover->look_count) {
        begin_look(mover);
        return true;
    }
    if (!choice.block) {
        mover->spent = !mover->look_count && !choice.unseen;
        return false;
    }
    struct chunk *chunk = &choice.block->chunks[choice.index];
    uint64_t bytes = chunk->bytes;
    if (chunk->zeros) {
        mover_take_off(mover, choice.block, choice.index);
        *dropped += bytes;
    } else if (!mover_has_place(&mover->out)) {
        return false;
    } else if (!begin_leaving(mover, choice.block, choice.index)) {
        mover->failed = true;
        return false;
    }
    *order -= bytes < *order ? bytes : *order;
    return true;
}

void leaving_begin(struct mover *mover)
{
    uint64_t dropped = 0;
    uint32_t begun = 0;
    mover->spent = false;
    while (mover->orders[0] && !mover->failed && begun < AT_ONCE && begin_one(mover, &dropped)) {
        begun++;
    }
    mover_moved.zero_bytes += dropped;
    if ((mover->failed || !mover->orders[0] || mover->spent) && !mover->out.count) {
        leaving_end_order(mover, dropped);
    } else if (dropped) {
        mover->report(mover->device, dropped, false, false);
    }
}
