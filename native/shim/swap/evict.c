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
        struct victim look = transfer->scans[i];
        struct chunk *chunk = &look.extent->chunks[look.index];
        if (extent_ensure_mapped(look.extent, look.index) != CUDA_SUCCESS) {
            chunk->scanned_turn =
                transfer->device->lease_count; /* it has to be copied, should that work better */
            chunk->zeros = false;
            continue;
        }
        zero_scan_add(zeros, count, extent_address(look.extent, look.index), chunk->bytes);
        transfer->scans[count++] = look;
    }
    if (!count) {
        return;
    }
    if (zero_scan_run(zeros, count, transfer->copy_streams.in) != CUDA_SUCCESS ||
        DRIVER(cuEventRecord)(transfer->copy_streams.scanned, transfer->copy_streams.in) !=
            CUDA_SUCCESS) {
        DRIVER(cuStreamSynchronize)(transfer->copy_streams.in);
        zeros->function = NULL; /* then everything is copied */
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
        struct victim *look = &transfer->scans[i];
        struct chunk *chunk = &look->extent->chunks[look->index];
        chunk->scanned_turn = transfer->device->lease_count;
        chunk->zeros = succeeded && zero_scan_is_zero(&transfer->copy_streams.zero_scan, i);
        extent_end_busy(look->extent, look->index);
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

/* Host memory may have to be registered or to come from the agent first: meanwhile only this chunk
 * is busy, and the lock is free. */
static void *take_host_memory(struct extent *extent, uint32_t index)
{
    uint64_t bytes = extent->chunks[index].bytes;
    extent_begin_busy(extent, index);
    lock_drop(&extent_lock);
    void *host = host_memory_take(bytes);
    lock_take(&extent_lock);
    if (!host) {
        extent_end_busy(extent, index);
    }
    return host;
}

static bool begin_evict(struct transfer *transfer, struct extent *extent, uint32_t index)
{
    struct copy_streams *copy_streams = &transfer->copy_streams;
    struct chunk *chunk = &extent->chunks[index];
    CUevent done;
    void *host = extent_ensure_mapped(extent, index) == CUDA_SUCCESS
                     ? take_host_memory(extent, index)
                     : NULL;
    if (!host) {
        return false;
    }
    struct move *move = transfer_begin(&transfer->out, copy_streams->out_done, &done);
    move->extent = extent;
    move->index = index;
    move->host = host;
    CUresult result = DRIVER(cuMemcpyDtoHAsync_v2)(host, extent_address(extent, index),
                                                   chunk->bytes, copy_streams->out);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuEventRecord)(done, copy_streams->out);
    }
    if (result != CUDA_SUCCESS) {
        DRIVER(cuStreamSynchronize)(copy_streams->out); /* the copy may be under way */
        host_arena_give_back(host, chunk->bytes);
        transfer->out.count--;
        extent_end_busy(extent, index);
    }
    return result == CUDA_SUCCESS;
}

void evict_end(struct transfer *transfer, bool succeeded)
{
    struct move move = transfer->out.moves[transfer->out.first];
    struct chunk *chunk = &move.extent->chunks[move.index];
    transfer_end(&transfer->out, chunk->bytes, &transfer_totals.evicted_ns);
    if (!succeeded) {
        host_arena_give_back(move.host, chunk->bytes);
        transfer->failed = true;
        extent_end_busy(move.extent, move.index);
        return;
    }
    transfer_unmap(transfer, move.extent, move.index);
    chunk->host = move.host;
    chunk->zeros = false;
    transfer_totals.evicted_bytes += chunk->bytes;
    uint64_t bytes = chunk->bytes;
    extent_end_busy(move.extent, move.index);
    if (transfer->order_count && !transfer->orders[0] && !transfer->out.count) {
        evict_end_order(transfer, bytes);
    } else {
        transfer->report(transfer->device, bytes, false, false);
    }
}

/* False: nothing more can be begun now. */
static bool begin_one(struct transfer *transfer, uint64_t *dropped)
{
    uint64_t *order = &transfer->orders[0];
    bool can_look = zero_scan_can_run(&transfer->copy_streams.zero_scan);
    struct victim victim = victim_choose(transfer->device, *order, can_look);
    if (can_look && victim.unscanned && !transfer->scan_count) {
        begin_scan(transfer);
        return true;
    }
    if (!victim.extent) {
        transfer->spent = !transfer->scan_count && !victim.unscanned;
        return false;
    }
    struct chunk *chunk = &victim.extent->chunks[victim.index];
    uint64_t bytes = chunk->bytes;
    if (chunk->zeros) {
        transfer_unmap(transfer, victim.extent, victim.index);
        *dropped += bytes;
    } else if (!transfer_has_place(&transfer->out)) {
        return false;
    } else if (!begin_evict(transfer, victim.extent, victim.index)) {
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
    if ((transfer->failed || !transfer->orders[0] || transfer->spent) && !transfer->out.count) {
        evict_end_order(transfer, dropped);
    } else if (dropped) {
        transfer->report(transfer->device, dropped, false, false);
    }
}
