#include "shim/swap/swap.h"

#include <string.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/swap/clean.h"
#include "shim/swap/content_hash.h"
#include "shim/swap/evict.h"
#include "shim/swap/restore.h"
#include "shim/swap/transfer.h"

#define YIELD_NS 300000ull /* for a thread that waits to destroy a context */

static struct transfer transfers[MW_GPUS_MAX];
static bool owns_contexts; /* contexts_lock is held, as long as anything is moved */
static bool has_room; /* the agent gave a budget to restore, and waits until every byte is back */

static struct transfer *transfer_of(struct device *device)
{
    uint32_t i = 0;
    while (transfers[i].device && transfers[i].device != device) {
        i++;
    }
    if (!transfers[i].device) {
        transfers[i].device = device;
        device->lease_count++; /* from 1 on: 0 is never */
    }
    return &transfers[i];
}

/* Ends the copies and the scan that are done. With `wait`, waits until all are. */
static void finish(struct transfer *transfer, bool wait)
{
    struct copy_streams *copy_streams = &transfer->copy_streams;
    struct direction *ways[] = {&transfer->out, &transfer->in};
    CUevent *events[] = {copy_streams->out_done, copy_streams->in_done};
    if (transfer->scan_count) {
        CUresult result = wait ? DRIVER(cuEventSynchronize)(copy_streams->scanned)
                               : DRIVER(cuEventQuery)(copy_streams->scanned);
        if (result != CUDA_ERROR_NOT_READY) {
            LOCK_SCOPE(&extent_lock);
            evict_end_scan(transfer, result == CUDA_SUCCESS);
        }
    }
    for (int i = 0; i < 2; i++) {
        while (ways[i]->count) {
            CUevent done = events[i][ways[i]->first];
            CUresult result = wait ? DRIVER(cuEventSynchronize)(done) : DRIVER(cuEventQuery)(done);
            if (result == CUDA_ERROR_NOT_READY) {
                break;
            }
            LOCK_SCOPE(&extent_lock);
            if (i == 0) {
                evict_end(transfer, result == CUDA_SUCCESS);
            } else {
                restore_end(transfer, result);
            }
        }
    }
}

static uint64_t soonest_ns(const struct transfer *transfer)
{
    uint64_t soonest = SWAP_NEVER;
    uint64_t now = now_ns();
    if (transfer->scan_count) {
        soonest = POLL_AGAIN_NS;
    }
    if (transfer->out.count) {
        uint64_t out = transfer_expected_ns(&transfer->out);
        soonest = out < soonest ? out : soonest;
    } else if (transfer->order_count && !transfer->scan_count && !transfer->in.count) {
        soonest = 0;
    }
    if (transfer->in.count) {
        uint64_t in = transfer_expected_ns(&transfer->in);
        soonest = in < soonest ? in : soonest;
    }
    if (transfer->restoring) { /* missing chunks may be freed meanwhile, or their moves released */
        uint64_t again = transfer->retry_ns > now ? transfer->retry_ns - now : NO_ROOM_NS;
        soonest = again < soonest ? again : soonest;
    }
    return soonest;
}

static bool misses_nothing(struct transfer *transfer)
{
    bool missing;
    LOCK_SCOPE(&extent_lock);
    victim_choose_to_restore(&transfer->coming, transfer->device, 0, &missing);
    return !missing;
}

/* Loads the kernels into the current context. */
static void load(struct transfer *transfer)
{
    zero_scan_load(&transfer->copy_streams.zero_scan, transfer->device->lease_count);
    if (clean_mode() != CLEAN_OFF) {
        content_hash_check(&transfer->copy_streams.zero_scan, transfer->copy_streams.hash);
    }
}

static void step(struct transfer *transfer, bool begin)
{
    if (!transfer->order_count && !transfer_is_moving(transfer) && misses_nothing(transfer)) {
        transfer->restoring = false;
        return;
    }
    CUresult why;
    if (!copy_streams_enter(&transfer->copy_streams, transfer->device, &why)) {
        LOCK_SCOPE(&extent_lock);
        while (transfer->order_count) { /* no context any more, or no memory for a stream */
            transfer->failed = true;
            evict_end_order(transfer, 0);
        }
        transfer->retry_ns = now_ns() + NO_ROOM_NS;
        if (transfer->restoring && why != CUDA_SUCCESS) {
            transfer->restoring = !restore_is_hopeless(transfer, why);
        }
        return;
    }
    finish(transfer, false);
    if (begin && transfer->order_count) {
        load(transfer);
        if (!transfer->in.count) { /* restores that began before the order have to end first */
            evict_begin(transfer);
        }
    } else if (begin && transfer->restoring && !transfer->out.count && !transfer->scan_count) {
        LOCK_SCOPE(&extent_lock);
        transfer->restoring = !restore_begin(transfer);
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
    /* A thread that destroys a context gets contexts_lock as soon as all copies have ended. */
    bool begin = !owns_contexts || !lock_is_wanted(&contexts_lock);
    for (uint32_t i = 0; i < MW_GPUS_MAX && transfers[i].device; i++) {
        struct transfer *transfer = &transfers[i];
        if (!transfer->order_count && !transfer->restoring && !transfer_is_moving(transfer)) {
            continue;
        }
        begin = begin && !agent_is_lost(); /* another tenant may have the room by now */
        own_contexts(true);
        step(transfer, begin);
        comes = comes || transfer->restoring;
        moves = moves || transfer_is_moving(transfer);
        uint64_t soonest = soonest_ns(transfer);
        wait_ns = soonest < wait_ns ? soonest : wait_ns;
    }
    own_contexts(moves);
    *restored = has_room && !comes;
    has_room = has_room && comes;
    return !begin && !moves ? YIELD_NS : wait_ns;
}

void swap_prepare(struct device *device)
{
    struct transfer *transfer = transfer_of(device);
    const struct zero_scan *zero_scan = &transfer->copy_streams.zero_scan;
    CUresult why;
    bool owned = owns_contexts;
    if (zero_scan->function || zero_scan->hopeless ||
        zero_scan->tried_turn == device->lease_count) {
        return; /* in a context that is gone, maybe: then an eviction loads it */
    }
    own_contexts(true);
    if (copy_streams_enter(&transfer->copy_streams, device, &why)) {
        load(transfer);
        device_pop();
    }
    own_contexts(owned);
}

void swap_count_content(struct device *device,
                        void (*tell)(struct device *device, struct content content))
{
    struct transfer *transfer = transfer_of(device);
    CUresult why;
    bool owned = owns_contexts;
    own_contexts(true);
    if (copy_streams_enter(&transfer->copy_streams, device, &why)) {
        load(transfer);
        do {
            finish(transfer, true);
        } while (evict_scan(transfer));
        device_pop();
    }
    own_contexts(owned);
    LOCK_SCOPE(&extent_lock);
    tell(device, content_count(device));
}

void swap_order(struct device *device, uint64_t bytes, transfer_report *report)
{
    struct transfer *transfer = transfer_of(device);
    device->restore_budget = 0; /* an order to evict ends the budget to restore */
    transfer->restoring = false;
    has_room = false;
    transfer->report = report;
    transfer->leaving.count = 0;
    if (transfer->order_count == ORDERS_MAX) {
        LOCK_SCOPE(&extent_lock);
        report(device, 0, true, true);
        return;
    }
    transfer->orders[transfer->order_count++] = bytes;
}

void swap_grant_budget(struct device *device, uint64_t bytes)
{
    if (device) {
        device->restore_budget += bytes;
    }
    has_room = true;
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        transfer_of(d)->restoring = true;
    }
}

void swap_settle(void)
{
    for (uint32_t i = 0; i < MW_GPUS_MAX && transfers[i].device; i++) {
        struct transfer *transfer = &transfers[i];
        CUresult why;
        if (transfer_is_moving(transfer) &&
            copy_streams_enter(&transfer->copy_streams, transfer->device, &why)) {
            finish(transfer, true);
            device_pop();
        }
        transfer->device->restore_budget = 0;
        transfer->device->lease_count++;
        transfer->restoring = false;
        transfer->failures = 0;
        transfer->retry_ns = 0;
    }
    has_room = false;
    own_contexts(false);
}

void swap_forget_orders(void)
{
    for (uint32_t i = 0; i < MW_GPUS_MAX && transfers[i].device; i++) {
        transfers[i].order_count = 0;
        transfers[i].failed = false;
    }
}

struct transfer_totals swap_totals(void) { return transfer_totals; }

void swap_after_fork(void)
{
    memset(transfers, 0, sizeof(transfers));
    owns_contexts = false;
    has_room = false;
}
