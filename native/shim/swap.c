#include "shim/swap.h"

#include <string.h>

#include "shim/arena.h"
#include "shim/blocks.h"
#include "shim/choice.h"
#include "shim/gate.h"
#include "shim/lane.h"
#include "shim/real.h"
#include "shim/say.h"

#define ORDERS_MAX 64u
#define ZEROS_A_STEP 16u       /* chunks that leave without a copy until messages are looked at */
#define LOOK_AGAIN_NS 50000ull /* at a copy that takes longer than it should */
#define YIELD_NS 300000ull     /* for whoever waits to destroy a context */
#define NO_ROOM_NS 2000000ull  /* the driver may still be freeing others' memory */
#define FAILURES_MAX 6         /* in a row, until it is said; tried again with longer pauses */
#define RATE_START 10e9        /* bytes a second, until copies have shown it */
#define WORTH_MEASURING (1u << 20)

/* A chunk on its way. */
struct move {
    struct block *block;
    uint32_t index;
    void *host;  /* leaving: where to */
    bool copied; /* coming: from the arena, not set to zeros */
    uint64_t began_ns;
};

struct direction {
    struct move moves[LANE_DEPTH];
    uint32_t first, count;
    double rate; /* bytes a second */
    uint64_t began_ns;
    uint64_t ended_ns; /* the last one */
};

struct mover {
    struct device *device;
    struct lane lane;
    uint64_t orders[ORDERS_MAX]; /* what is still to leave, oldest first */
    uint32_t order_count;
    bool failed; /* the oldest: no more of it leaves */
    swap_report *report;
    bool coming; /* has room, and has not said that all is back */
    struct direction out, in;
    struct choice looks[ZEROS_AT_ONCE];
    uint32_t look_count;
    uint32_t failures; /* of coming, in a row */
    uint64_t retry_ns; /* nothing comes before that */
};

static struct mover movers[MW_GPUS_MAX];
static struct swap_moved moved;
static bool owns_contexts; /* contexts_lock: as long as anything is on its way */

static struct mover *mover_of(struct device *device)
{
    uint32_t i = 0;
    while (movers[i].device && movers[i].device != device) {
        i++;
    }
    if (!movers[i].device) {
        movers[i].device = device;
        device->turn++; /* from 1 on: 0 is never */
    }
    return &movers[i];
}

static bool is_moving(const struct mover *mover)
{
    return mover->out.count || mover->in.count || mover->look_count;
}

static struct move *begin_move(struct direction *way, CUevent done[], CUevent *event)
{
    uint32_t slot = (way->first + way->count) % LANE_DEPTH;
    if (way->count++ == 0) {
        way->began_ns = now_ns();
    }
    *event = done[slot];
    way->moves[slot].began_ns = now_ns();
    return &way->moves[slot];
}

/* The oldest one's event says that it is done: takes it off. */
static struct move end_move(struct direction *way, uint64_t bytes, uint64_t *busy_ns)
{
    struct move done = way->moves[way->first];
    uint64_t now = now_ns();
    uint64_t from = done.began_ns > way->ended_ns ? done.began_ns : way->ended_ns;
    if (bytes >= WORTH_MEASURING && now > from) {
        double rate = (double)bytes * 1e9 / (double)(now - from);
        way->rate = way->rate > 0 ? way->rate + 0.3 * (rate - way->rate) : rate;
    }
    way->ended_ns = now;
    way->first = (way->first + 1) % LANE_DEPTH;
    if (--way->count == 0) {
        *busy_ns += now - way->began_ns;
    }
    return done;
}

/* In how many ns the oldest one should be done. */
static uint64_t expected_ns(const struct direction *way)
{
    const struct move *move = &way->moves[way->first];
    uint64_t now = now_ns();
    uint64_t from = move->began_ns > way->ended_ns ? move->began_ns : way->ended_ns;
    double rate = way->rate > 0 ? way->rate : RATE_START;
    uint64_t due =
        from + (uint64_t)((double)move->block->chunks[move->index].bytes * 1e9 / rate * 0.95);
    return due > now + LOOK_AGAIN_NS ? due - now : LOOK_AGAIN_NS;
}

/* ---- looking ---- */

static void begin_look(struct mover *mover)
{
    struct zeros *zeros = &mover->lane.zeros;
    uint32_t count = choose_unseen(mover->device, mover->looks, ZEROS_AT_ONCE);
    for (uint32_t i = 0; i < count; i++) {
        struct choice *look = &mover->looks[i];
        zeros_ask(zeros, i, block_at(look->block, look->index),
                  look->block->chunks[look->index].bytes);
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

static void end_look(struct mover *mover, bool succeeded)
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

/* ---- leaving ---- */

static void end_order(struct mover *mover, uint64_t bytes)
{
    bool failed = mover->failed;
    mover->failed = false;
    mover->order_count--;
    memmove(mover->orders, mover->orders + 1, mover->order_count * sizeof(mover->orders[0]));
    mover->report(mover->device, bytes, true, failed);
}

static void take_off(struct mover *mover, struct chunk *chunk, CUdeviceptr at)
{
    chunk_unmap(chunk, at);
    mover->device->resident_bytes -= chunk->bytes;
}

static bool begin_leaving(struct mover *mover, struct block *block, uint32_t index)
{
    struct lane *lane = &mover->lane;
    struct chunk *chunk = &block->chunks[index];
    CUevent done;
    void *host = arena_take(chunk->bytes);
    if (!host) {
        return false;
    }
    struct move *move = begin_move(&mover->out, lane->out_done, &done);
    CUresult result =
        REAL(cuMemcpyDtoHAsync_v2)(host, block_at(block, index), chunk->bytes, lane->out);
    if (result == CUDA_SUCCESS) {
        result = REAL(cuEventRecord)(done, lane->out);
    }
    if (result != CUDA_SUCCESS) {
        REAL(cuStreamSynchronize)(lane->out); /* the copy may be under way */
        arena_give_back(host, chunk->bytes);
        mover->out.count--;
        return false;
    }
    move->block = block;
    move->index = index;
    move->host = host;
    block_begin(block, index);
    return true;
}

static void end_leaving(struct mover *mover, bool succeeded)
{
    struct move move = mover->out.moves[mover->out.first];
    struct chunk *chunk = &move.block->chunks[move.index];
    end_move(&mover->out, chunk->bytes, &moved.evicted_ns);
    if (!succeeded) {
        arena_give_back(move.host, chunk->bytes);
        mover->failed = true;
        block_end(move.block, move.index);
        return;
    }
    take_off(mover, chunk, block_at(move.block, move.index));
    chunk->host = move.host;
    chunk->zeros = false;
    moved.evicted_bytes += chunk->bytes;
    uint64_t bytes = chunk->bytes;
    block_end(move.block, move.index);
    if (mover->order_count && !mover->orders[0] && !mover->out.count) {
        end_order(mover, bytes);
    } else {
        mover->report(mover->device, bytes, false, false);
    }
}

/* Begins what can be begun of the oldest order. False: there is nothing to wait for, call again. */
static void leave(struct mover *mover)
{
    uint64_t dropped = 0;
    bool can_look = zeros_can_look(&mover->lane.zeros);
    uint64_t *order = &mover->orders[0];
    bool nobody = false;
    for (uint32_t zeros = 0; zeros < ZEROS_A_STEP && *order && !mover->failed;) {
        struct choice choice = choose_leaving(mover->device, *order, can_look);
        if (can_look && choice.unseen && !mover->look_count) {
            begin_look(mover);
            can_look = mover->lane.zeros.function;
            continue;
        }
        struct chunk *chunk = choice.block ? &choice.block->chunks[choice.index] : NULL;
        if (!chunk) {
            nobody = !mover->look_count && !choice.unseen;
            break;
        }
        if (chunk->zeros) {
            take_off(mover, chunk, block_at(choice.block, choice.index));
            dropped += chunk->bytes;
            zeros++;
        } else if (mover->out.count == LANE_DEPTH) {
            break;
        } else if (!begin_leaving(mover, choice.block, choice.index)) {
            mover->failed = true;
            break;
        }
        *order -= chunk->bytes < *order ? chunk->bytes : *order;
    }
    moved.zero_bytes += dropped;
    if ((mover->failed || !*order || nobody) && !mover->out.count) {
        end_order(mover, dropped);
    } else if (dropped) {
        mover->report(mover->device, dropped, false, false);
    }
}

/* ---- coming ---- */

/* Whether the contexts of this process are of no more use, to it as to us. */
static bool is_broken(void)
{
    CUresult result = REAL(cuCtxSynchronize)();
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

static CUresult begin_coming(struct mover *mover, struct block *block, uint32_t index)
{
    struct lane *lane = &mover->lane;
    struct chunk *chunk = &block->chunks[index];
    CUdeviceptr at = block_at(block, index);
    CUevent done;
    CUresult result;
    if (!chunks_map(chunk, 1, at, block->device->ordinal, &result)) {
        return result;
    }
    if (chunk->host || chunk->zeros) {
        struct move *move = begin_move(&mover->in, lane->in_done, &done);
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
            chunk_unmap(chunk, at);
            return result;
        }
        block_begin(block, index);
    }
    block->device->resident_bytes += chunk->bytes;
    block->device->credit_bytes -= chunk->bytes;
    return CUDA_SUCCESS;
}

static void end_coming(struct mover *mover, CUresult result)
{
    struct move move = mover->in.moves[mover->in.first];
    struct chunk *chunk = &move.block->chunks[move.index];
    end_move(&mover->in, move.copied ? chunk->bytes : 0, &moved.restored_ns);
    if (result != CUDA_SUCCESS) {
        take_off(mover, chunk, block_at(move.block, move.index));
        mover->device->credit_bytes += chunk->bytes;
        put_off(mover, result);
    } else {
        mover->failures = 0;
        if (chunk->host) {
            arena_give_back(chunk->host, chunk->bytes);
            moved.restored_bytes += chunk->bytes;
        }
        chunk->host = NULL;
        chunk->zeros = false;
    }
    block_end(move.block, move.index);
}

/* Begins what there is room for. True: all is there, or will never be. */
static bool come(struct mover *mover)
{
    bool missing = false;
    while (now_ns() >= mover->retry_ns) {
        struct choice choice = choose_coming(mover->device, mover->device->credit_bytes, &missing);
        if (!choice.block || mover->in.count == LANE_DEPTH) {
            break;
        }
        CUresult result = begin_coming(mover, choice.block, choice.index);
        if (result != CUDA_SUCCESS) {
            put_off(mover, result);
        }
    }
    if (mover->failures >= FAILURES_MAX && !mover->in.count && is_broken()) {
        return true;
    }
    return now_ns() >= mover->retry_ns && !missing && !mover->in.count;
}

/* ---- steps ---- */

/* Ends what is done. With `wait`, waits until all is. */
static void finish(struct mover *mover, bool wait)
{
    struct lane *lane = &mover->lane;
    struct direction *ways[] = {&mover->out, &mover->in};
    CUevent *events[] = {lane->out_done, lane->in_done};
    if (mover->look_count) {
        CUresult result =
            wait ? REAL(cuEventSynchronize)(lane->looked) : REAL(cuEventQuery)(lane->looked);
        if (result != CUDA_ERROR_NOT_READY) {
            LOCK_SCOPE(&blocks_lock);
            end_look(mover, result == CUDA_SUCCESS);
        }
    }
    for (int i = 0; i < 2; i++) {
        while (ways[i]->count) {
            CUevent done = events[i][ways[i]->first];
            CUresult result = wait ? REAL(cuEventSynchronize)(done) : REAL(cuEventQuery)(done);
            if (result == CUDA_ERROR_NOT_READY) {
                break;
            }
            LOCK_SCOPE(&blocks_lock);
            if (i == 0) {
                end_leaving(mover, result == CUDA_SUCCESS);
            } else {
                end_coming(mover, result);
            }
        }
    }
}

static uint64_t soonest_ns(const struct mover *mover)
{
    uint64_t soonest = SWAP_NEVER;
    uint64_t now = now_ns();
    if (mover->look_count) {
        soonest = LOOK_AGAIN_NS;
    }
    if (mover->out.count) {
        uint64_t out = expected_ns(&mover->out);
        soonest = out < soonest ? out : soonest;
    } else if (mover->order_count && !mover->look_count && !mover->in.count) {
        soonest = 0;
    }
    if (mover->in.count) {
        uint64_t in = expected_ns(&mover->in);
        soonest = in < soonest ? in : soonest;
    }
    if (mover->coming && mover->retry_ns > now) {
        uint64_t again = mover->retry_ns - now;
        soonest = again < soonest ? again : soonest;
    }
    return soonest;
}

static bool misses_nothing(const struct mover *mover)
{
    bool missing;
    LOCK_SCOPE(&blocks_lock);
    choose_coming(mover->device, 0, &missing);
    return !missing;
}

static void step(struct mover *mover, bool begin)
{
    if (!mover->order_count && !is_moving(mover) && misses_nothing(mover)) {
        mover->coming = false;
        return;
    }
    if (!lane_enter(&mover->lane, mover->device)) {
        LOCK_SCOPE(&blocks_lock);
        while (mover->order_count) { /* no context any more, or no memory for a stream */
            mover->failed = true;
            end_order(mover, 0);
        }
        mover->retry_ns = now_ns() + NO_ROOM_NS;
        return;
    }
    finish(mover, false);
    if (begin && mover->order_count) {
        LOCK_SCOPE(&blocks_lock);
        if (!mover->in.count) { /* what was coming when the order came has to end */
            leave(mover);
        }
    } else if (begin && mover->coming && !mover->out.count && !mover->look_count) {
        LOCK_SCOPE(&blocks_lock);
        mover->coming = !come(mover);
    }
    device_pop();
}

static void own_contexts(bool wanted)
{
    if (wanted && !owns_contexts) {
        lock_take(&contexts_lock);
    } else if (!wanted && owns_contexts) {
        lock_drop(&contexts_lock);
    }
    owns_contexts = wanted;
}

uint64_t swap_step(bool *restored)
{
    uint64_t wait_ns = SWAP_NEVER;
    bool was_coming = false;
    bool comes = false;
    bool moves = false;
    /* Whoever destroys a context gets it as soon as what is on its way has arrived. */
    bool begin = !owns_contexts || !lock_is_wanted(&contexts_lock);
    for (uint32_t i = 0; i < MW_GPUS_MAX && movers[i].device; i++) {
        struct mover *mover = &movers[i];
        if (!mover->order_count && !mover->coming && !is_moving(mover)) {
            continue;
        }
        own_contexts(true);
        was_coming = was_coming || mover->coming;
        step(mover, begin);
        comes = comes || mover->coming;
        moves = moves || is_moving(mover);
        uint64_t soonest = soonest_ns(mover);
        wait_ns = soonest < wait_ns ? soonest : wait_ns;
    }
    own_contexts(moves);
    *restored = was_coming && !comes;
    return !begin && !moves ? YIELD_NS : wait_ns;
}

void swap_order(struct device *device, uint64_t bytes, swap_report *report)
{
    struct mover *mover = mover_of(device);
    device->credit_bytes = 0; /* whoever is told to go has no room any more */
    mover->coming = false;
    mover->report = report;
    if (mover->order_count == ORDERS_MAX) {
        LOCK_SCOPE(&blocks_lock);
        report(device, 0, true, true);
        return;
    }
    mover->orders[mover->order_count++] = bytes;
}

void swap_credit(struct device *device, uint64_t bytes)
{
    device->credit_bytes += bytes;
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        mover_of(d)->coming = true;
    }
}

void swap_settle(void)
{
    for (uint32_t i = 0; i < MW_GPUS_MAX && movers[i].device; i++) {
        struct mover *mover = &movers[i];
        if (is_moving(mover) && lane_enter(&mover->lane, mover->device)) {
            finish(mover, true);
            device_pop();
        }
        mover->device->credit_bytes = 0;
        mover->device->turn++;
        mover->coming = false;
        mover->failures = 0;
        mover->retry_ns = 0;
    }
    own_contexts(false);
}

void swap_forget_orders(void)
{
    for (uint32_t i = 0; i < MW_GPUS_MAX && movers[i].device; i++) {
        movers[i].order_count = 0;
        movers[i].failed = false;
    }
}

struct swap_moved swap_moved(void) { return moved; }

void swap_after_fork(void)
{
    memset(movers, 0, sizeof(movers));
    owns_contexts = false;
}
