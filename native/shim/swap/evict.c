#include "shim/swap/evict.h"

#include <string.h>

#include "shim/base/driver.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_memory.h"

#define AT_ONCE 16u /* chunks, until messages are looked at */

static void begin_scan(struct transfer *transfer)
{
    struct zero_scan *zeros = &transfer->copy_streams.zero_scan;
    uint32_t found = victim_choose_to_scan(transfer->device, transfer->scans, ZERO_SCAN_AT_ONCE);
    uint32_t count = 0;
    for (uint32_t i = 0; i < found; i++) {
        struct victim scan = transfer->scans[i];
        struct chunk *chunk = &scan.extent->chunks[scan.index];
        if (extent_ensure_mapped(scan.extent, scan.index) != CUDA_SUCCESS) {
            chunk->scanned_turn =
                transfer->device->lease_count; /* it has to be copied, should that work better */
            chunk->content = CHUNK_DATA;
            continue;
        }
        zero_scan_add(zeros, count, extent_address(scan.extent, scan.index), chunk->bytes);
        transfer->scans[count++] = scan;
    }
    if (!count) {
        return;
    }
    if (zero_scan_run(zeros, count, transfer->copy_streams.in) != CUDA_SUCCESS ||
        DRIVER(cuEventRecord)(transfer->copy_streams.scanned, transfer->copy_streams.in) !=
            CUDA_SUCCESS) {
        DRIVER(cuStreamSynchronize)(transfer->copy_streams.in);
        zero_scan_give_up(zeros); /* then everything is copied */
        return;
    }
    transfer->scan_count = count;
    for (uint32_t i = 0; i < count; i++) {
        extent_begin_busy(transfer->scans[i].extent, transfer->scans[i].index);
    }
}

void evict_end_scan(struct transfer *transfer, bool succeeded)
{
    for (uint32_t i = 0; i < transfer->scan_count; i++) {
        struct victim *scan = &transfer->scans[i];
        struct chunk *chunk = &scan->extent->chunks[scan->index];
        chunk->scanned_turn = transfer->device->lease_count;
        bool is_zero = succeeded && zero_scan_is_zero(&transfer->copy_streams.zero_scan, i);
        chunk->content = is_zero ? CHUNK_ZERO : CHUNK_DATA;
        extent_end_busy(scan->extent, scan->index);
    }
    transfer->scan_count = 0;
}

void evict_end_order(struct transfer *transfer, uint64_t bytes)
{
    bool failed = transfer->failed;
    transfer->failed = false;
    transfer->order_count--;
    memmove(transfer->orders, transfer->orders + 1,
            transfer->order_count * sizeof(transfer->orders[0]));
    transfer->report(transfer->device, bytes, true, failed);
}

/* With the lock, and with host memory for it: the copy of a busy chunk. */
static bool begin_copy(struct transfer *transfer, struct victim victim, void *host)
{
    struct copy_streams *copy_streams = &transfer->copy_streams;
    struct chunk *chunk = &victim.extent->chunks[victim.index];
    CUevent done;
    struct move *move = transfer_begin(&transfer->out, copy_streams->out_done, &done);
    move->extent = victim.extent;
    move->index = victim.index;
    move->host = host;
    CUresult result = DRIVER(cuMemcpyDtoHAsync_v2)(
        host, extent_address(victim.extent, victim.index), chunk->bytes, copy_streams->out);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuEventRecord)(done, copy_streams->out);
    }
    if (result != CUDA_SUCCESS) {
        DRIVER(cuStreamSynchronize)(copy_streams->out); /* the copy may be under way */
        transfer->out.count--;
        return false;
    }
    chunk_transition(chunk, CHUNK_MOVING);
    return true;
}

/* Without the lock, for host memory may have to be registered or to come from the agent first: meanwhile
 * only this chunk is busy. */
static bool evict_busy(struct transfer *transfer, struct victim victim)
{
    uint64_t bytes = victim.extent->chunks[victim.index].bytes;
    void *host = host_memory_take(bytes);
    LOCK_SCOPE(&extent_lock);
    if (host && begin_copy(transfer, victim, host)) {
        return true;
    }
    if (host) {
        host_arena_give_back(host, bytes);
    }
    extent_end_busy(victim.extent, victim.index);
    return false;
}

void evict_end(struct transfer *transfer, bool succeeded)
{
    struct move move = transfer->out.moves[transfer->out.first];
    struct chunk *chunk = &move.extent->chunks[move.index];
    transfer_end(&transfer->out, chunk->bytes, &transfer_totals.evicted_ns);
    if (!succeeded) {
        host_arena_give_back(move.host, chunk->bytes);
        chunk_transition(chunk, CHUNK_RESIDENT);
        transfer->failed = true;
        extent_end_busy(move.extent, move.index);
        return;
    }
    transfer_unmap(transfer, move.extent, move.index);
    chunk->host = move.host;
    chunk->content = CHUNK_DATA;
    transfer_totals.evicted_bytes += chunk->bytes;
    uint64_t bytes = chunk->bytes;
    extent_end_busy(move.extent, move.index);
    if (transfer->order_count && !transfer->orders[0] && !transfer->out.count) {
        evict_end_order(transfer, bytes);
    } else {
        transfer->report(transfer->device, bytes, false, false);
    }
}

enum step {
    STEP_STUCK, /* nothing more can be begun now */
    STEP_DONE,
    STEP_COPY, /* *victim is busy, and is to be copied */
};

/* With the lock: what comes next of the oldest order. */
static enum step next_step(struct transfer *transfer, struct victim *victim, uint64_t *dropped)
{
    uint64_t *order = &transfer->orders[0];
    bool can_scan = transfer->copy_streams.zero_scan.function != NULL;
    *victim = victim_choose(transfer->device, *order, can_scan);
    if (can_scan && victim->unscanned && !transfer->scan_count) {
        begin_scan(transfer);
        return STEP_DONE;
    }
    if (!victim->extent) {
        transfer->spent = !transfer->scan_count && !victim->unscanned;
        return STEP_STUCK;
    }
    struct chunk *chunk = &victim->extent->chunks[victim->index];
    uint64_t bytes = chunk->bytes;
    if (chunk->content == CHUNK_ZERO) {
        transfer_unmap(transfer, victim->extent, victim->index);
        *dropped += bytes;
        *order -= bytes < *order ? bytes : *order;
        return STEP_DONE;
    }
    if (!transfer_has_place(&transfer->out)) {
        return STEP_STUCK;
    }
    if (extent_ensure_mapped(victim->extent, victim->index) != CUDA_SUCCESS) {
        transfer->failed = true;
        return STEP_STUCK;
    }
    extent_begin_busy(victim->extent, victim->index);
    return STEP_COPY;
}

/* False: nothing more can be begun now. */
static bool begin_one(struct transfer *transfer, uint64_t *dropped)
{
    uint64_t *order = &transfer->orders[0];
    struct victim victim;
    lock_take(&extent_lock);
    enum step step = next_step(transfer, &victim, dropped);
    uint64_t bytes = step == STEP_COPY ? victim.extent->chunks[victim.index].bytes : 0;
    lock_drop(&extent_lock);
    if (step != STEP_COPY) {
        return step == STEP_DONE;
    }
    if (!evict_busy(transfer, victim)) {
        transfer->failed = true;
        return false;
    }
    *order -= bytes < *order ? bytes : *order;
    return true;
}

void evict_begin(struct transfer *transfer)
{
    uint64_t dropped = 0;
    uint32_t begun = 0;
    transfer->spent = false;
    while (transfer->orders[0] && !transfer->failed && begun < AT_ONCE &&
           begin_one(transfer, &dropped)) {
        begun++;
    }
    transfer_totals.zero_bytes += dropped;
    LOCK_SCOPE(&extent_lock);
    if ((transfer->failed || !transfer->orders[0] || transfer->spent) && !transfer->out.count) {
        evict_end_order(transfer, dropped);
    } else if (dropped) {
        transfer->report(transfer->device, dropped, false, false);
    }
}
