#include "shim/swap.h"

#include <string.h>

#include "shim/blocks.h"
#include "shim/link.h"
#include "shim/mover.h"
#include "shim/real.h"
#include "shim/say.h"

#define YIELD_NS 300000ull /* for whoever waits to destroy a context */

static struct mover movers[MW_GPUS_MAX];
static bool owns_contexts; /* contexts_lock: as long as anything is on its way */
static bool has_room; /* for some of what is missing: whoever gave it waits until all is back */

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
            leaving_end_look(mover, result == CUDA_SUCCESS);
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
                leaving_end(mover, result == CUDA_SUCCESS);
            } else {
                coming_end(mover, result);
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
        uint64_t out = mover_expected_ns(&mover->out);
        soonest = out < soonest ? out : soonest;
    } else if (mover->order_count && !mover->look_count && !mover->in.count) {
        soonest = 0;
    }
    if (mover->in.count) {
        uint64_t in = mover_expected_ns(&mover->in);
        soonest = in < soonest ? in : soonest;
    }
    if (mover->coming) { /* what is missing may be freed meanwhile, or not be held any more */
        uint64_t again = mover->retry_ns > now ? mover->retry_ns - now : NO_ROOM_NS;
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
    if (!mover->order_count && !mover_is_moving(mover) && misses_nothing(mover)) {
        mover->coming = false;
        return;
    }
    CUresult why;
    if (!lane_enter(&mover->lane, mover->device, &why)) {
        LOCK_SCOPE(&blocks_lock);
        while (mover->order_count) { /* no context any more, or no memory for a stream */
            mover->failed = true;
            leaving_end_order(mover, 0);
        }
        mover->retry_ns = now_ns() + NO_ROOM_NS;
        if (mover->coming && why != CUDA_SUCCESS) {
            mover->coming = !coming_is_hopeless(mover, why);
        }
        return;
    }
    finish(mover, false);
    if (begin && mover->order_count) {
        LOCK_SCOPE(&blocks_lock);
        if (!mover->in.count) { /* what was coming when the order came has to end */
            leaving_begin(mover);
        }
    } else if (begin && mover->coming && !mover->out.count && !mover->look_count) {
        LOCK_SCOPE(&blocks_lock);
        mover->coming = !coming_begin(mover);
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
    bool comes = false;
    bool moves = false;
    /* Whoever destroys a context gets it as soon as what is on its way has arrived. */
    bool begin = !owns_contexts || !lock_is_wanted(&contexts_lock);
    for (uint32_t i = 0; i < MW_GPUS_MAX && movers[i].device; i++) {
        struct mover *mover = &movers[i];
        if (!mover->order_count && !mover->coming && !mover_is_moving(mover)) {
            continue;
        }
        begin = begin && !link_is_lost(); /* what it gave room for may be another's by now */
        own_contexts(true);
        step(mover, begin);
        comes = comes || mover->coming;
        moves = moves || mover_is_moving(mover);
        uint64_t soonest = soonest_ns(mover);
        wait_ns = soonest < wait_ns ? soonest : wait_ns;
    }
    own_contexts(moves);
    *restored = has_room && !comes;
    has_room = has_room && comes;
    return !begin && !moves ? YIELD_NS : wait_ns;
}

void swap_order(struct device *device, uint64_t bytes, swap_report *report)
{
    struct mover *mover = mover_of(device);
    device->credit_bytes = 0; /* whoever is told to go has no room any more */
    mover->coming = false;
    has_room = false;
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
    if (device) {
        device->credit_bytes += bytes;
    }
    has_room = true;
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        mover_of(d)->coming = true;
    }
}

void swap_settle(void)
{
    for (uint32_t i = 0; i < MW_GPUS_MAX && movers[i].device; i++) {
        struct mover *mover = &movers[i];
        CUresult why;
        if (mover_is_moving(mover) && lane_enter(&mover->lane, mover->device, &why)) {
            finish(mover, true);
            device_pop();
        }
        mover->device->credit_bytes = 0;
        mover->device->turn++;
        mover->coming = false;
        mover->failures = 0;
        mover->retry_ns = 0;
    }
    has_room = false;
    own_contexts(false);
}

void swap_forget_orders(void)
{
    for (uint32_t i = 0; i < MW_GPUS_MAX && movers[i].device; i++) {
        movers[i].order_count = 0;
        movers[i].failed = false;
    }
}

struct swap_moved swap_moved(void) { return mover_moved; }

void swap_after_fork(void)
{
    memset(movers, 0, sizeof(movers));
    owns_contexts = false;
    has_room = false;
}
