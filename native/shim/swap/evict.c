#include "shim/swap/evict.h"

#include <string.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/swap/clean.h"
#include "shim/swap/content_hash.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_memory.h"

#define AT_ONCE 16u /* chunks, until messages are looked at */

/* Chunks that are hashed come first, so that one launch hashes all of them. Returns how many there are. */
static uint32_t hashed_first(struct transfer *transfer, uint32_t count)
{
    uint32_t hashed = 0;
    const struct zero_scan *zero_scan = &transfer->copy_streams.zero_scan;
    if (!content_hash_is_possible(zero_scan) ||
        !clean_is_worth_it(zero_scan->memory_rate, transfer->out.rate)) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct victim scan = transfer->scans[i];
        if (clean_wants_hash(scan.extent, &scan.extent->chunks[scan.index])) {
            transfer->scans[i] = transfer->scans[hashed];
            transfer->scans[hashed++] = scan;
        }
    }
    return hashed;
}

static CUresult run_scan(struct transfer *transfer, uint32_t count)
{
    struct zero_scan *zeros = &transfer->copy_streams.zero_scan;
    CUstream stream = transfer->copy_streams.in;
    CUresult result = zero_scan_run(zeros, count, stream);
    if (result == CUDA_SUCCESS && transfer->hash_count &&
        content_hash_run(zeros, 0, transfer->hash_count, stream) != CUDA_SUCCESS) {
        transfer->hash_count = 0;
    }
    return result ? result : DRIVER(cuEventRecord)(transfer->copy_streams.scanned, stream);
}

static void begin_scan(struct transfer *transfer)
{
    struct zero_scan *zeros = &transfer->copy_streams.zero_scan;
    uint32_t found = victim_choose_to_scan(transfer->device, transfer->scans, ZERO_SCAN_AT_ONCE);
    uint32_t count = 0;
    transfer->leaving.count = 0; /* which are not scanned is known anew, also if there are none */
    for (uint32_t i = 0; i < found; i++) {
        struct victim scan = transfer->scans[i];
        struct chunk *chunk = &scan.extent->chunks[scan.index];
        if (extent_ensure_mapped(scan.extent, scan.index) != CUDA_SUCCESS) {
            /* it has to be copied, should that work better */
            clean_scanned(chunk, transfer->device->lease_count, false, NULL);
            continue;
        }
        transfer->scans[count++] = scan;
    }
    if (!count) {
        return;
    }
    transfer->hash_count = hashed_first(transfer, count);
    for (uint32_t i = 0; i < count; i++) {
        struct victim scan = transfer->scans[i];
        zero_scan_add(zeros, i, extent_address(scan.extent, scan.index),
                      scan.extent->chunks[scan.index].bytes);
    }
    CUresult result = run_scan(transfer, count);
    if (result != CUDA_SUCCESS) {
        DRIVER(cuStreamSynchronize)(transfer->copy_streams.in);
        zero_scan_give_up(zeros, result); /* then everything is copied */
        if (clean_mode() != CLEAN_OFF) {
            content_hash_check(zeros, transfer->copy_streams.in);
        }
        for (uint32_t i = 0; i < count; i++) {
            struct victim scan = transfer->scans[i];
            clean_scanned(&scan.extent->chunks[scan.index], transfer->device->lease_count, false,
                          NULL);
        }
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
        const struct zero_scan *zeros = &transfer->copy_streams.zero_scan;
        struct content_hash hash;
        bool is_zero = succeeded && zero_scan_is_zero(zeros, i);
        bool hashed = succeeded && i < transfer->hash_count && content_hash_get(zeros, i, &hash);
        clean_scanned(chunk, transfer->device->lease_count, is_zero, hashed ? &hash : NULL);
        extent_end_busy(scan->extent, scan->index);
    }
    transfer->scan_count = 0;
    transfer->leaving.count = 0; /* zeros go first */
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
    clean_stays(&victim.extent->chunks[victim.index]);
    extent_end_busy(victim.extent, victim.index);
    return false;
}

/* CLEAN_VERIFY: the hash found the chunk unchanged, and it was copied all the same. The new copy is kept. */
static void compare(struct chunk *chunk, const void *copy)
{
    if (memcmp(chunk->host, copy, chunk->bytes) != 0) {
        message_print("report it, with the program and the driver's version",
                      "memory that has the hash of its host copy differs from it");
        transfer_totals.wrong_bytes += chunk->bytes;
    }
    transfer_totals.verified_bytes += chunk->bytes;
    host_arena_give_back(chunk->host, chunk->bytes);
}

void evict_end(struct transfer *transfer, bool succeeded)
{
    struct move move = transfer->out.moves[transfer->out.first];
    struct chunk *chunk = &move.extent->chunks[move.index];
    transfer_end(&transfer->out, chunk->bytes, &transfer_totals.evicted_ns);
    if (!succeeded) {
        host_arena_give_back(move.host, chunk->bytes);
        chunk_transition(chunk, CHUNK_RESIDENT);
        clean_stays(chunk);
        transfer->failed = true;
        extent_end_busy(move.extent, move.index);
        return;
    }
    transfer_unmap(transfer, move.extent, move.index);
    if (chunk->host) {
        compare(chunk, move.host);
    }
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
    *victim = victim_choose(&transfer->leaving, transfer->device, *order, can_scan);
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
    if (chunk->scanned_turn != transfer->device->lease_count) {
        clean_not_scanned(chunk);
    }
    bool verified = chunk->content == CHUNK_CLEAN && clean_mode() == CLEAN_VERIFY;
    if (clean_costs_nothing(chunk) && !verified) {
        if (chunk->host) {
            clean_use_copy(chunk);
            chunk->content = CHUNK_DATA; /* it is in the copy */
        }
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
    if (chunk->host) {
        clean_use_copy(chunk); /* to compare it */
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

bool evict_scan(struct transfer *transfer)
{
    LOCK_SCOPE(&extent_lock);
    if (transfer->copy_streams.zero_scan.function && !transfer->scan_count) {
        begin_scan(transfer);
    }
    return transfer->scan_count;
}
