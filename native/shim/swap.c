/* Moving chunks out of the GPU and back in: the control thread's half of memory.h.
 *
 * Copies are pipelined: while one chunk is on the link, the last one is unmapped (or the next one
 * mapped). Each step out is reported as it ends, so that its room can be used at once.
 */
#include <errno.h>

#include "shim/arena.h"
#include "shim/blocks.h"
#include "shim/memory.h"
#include "shim/real.h"
#include "shim/say.h"

#define DEPTH 2

static struct memory_moved moved;

struct leaving {
    struct block *block;
    uint32_t index;
    void *host;
    CUevent done;
};

static CUresult begin_leaving(struct leaving *leaving, struct block *block, uint32_t index,
                              CUstream stream)
{
    struct chunk *chunk = &block->chunks[index];
    CUdeviceptr at = block_at(block, index);
    leaving->host = arena_take(chunk->bytes);
    if (!leaving->host) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = REAL(cuMemcpyDtoHAsync_v2)(leaving->host, at, chunk->bytes, stream);
    if (result == CUDA_SUCCESS) {
        result = REAL(cuEventRecord)(leaving->done, stream);
    }
    if (result != CUDA_SUCCESS) {
        REAL(cuStreamSynchronize)(stream); /* the copy may be under way */
        arena_give_back(leaving->host, chunk->bytes);
        return result;
    }
    leaving->block = block;
    leaving->index = index;
    return CUDA_SUCCESS;
}

/* Waits for the copy and takes the memory away; the bytes that left, 0 if the copy failed. */
static uint64_t end_leaving(struct leaving *leaving)
{
    struct block *block = leaving->block;
    struct chunk *chunk = &block->chunks[leaving->index];
    leaving->block = NULL;
    if (REAL(cuEventSynchronize)(leaving->done) != CUDA_SUCCESS) {
        arena_give_back(leaving->host, chunk->bytes);
        return 0;
    }
    chunk_unmap(chunk, block_at(block, leaving->index));
    chunk->host = leaving->host;
    block->device->resident_bytes -= chunk->bytes;
    moved.evicted_bytes += chunk->bytes;
    return chunk->bytes;
}

struct cursor {
    size_t block; /* one beyond the current one */
    uint32_t chunk;
};

/* The next present chunk of the device, from the last allocation to the first. */
static struct block *next_present(const struct device *device, struct cursor *cursor)
{
    while (cursor->block > 0) {
        struct block *block = blocks_get(cursor->block - 1);
        while (block->device == device && cursor->chunk < block->chunk_count) {
            if (block->chunks[cursor->chunk++].present) {
                return block;
            }
        }
        cursor->block--;
        cursor->chunk = 0;
    }
    return NULL;
}

static bool make_events(struct leaving *leaving)
{
    for (int i = 0; i < DEPTH; i++) {
        if (REAL(cuEventCreate)(&leaving[i].done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
            return false;
        }
    }
    return true;
}

static void end_events(struct leaving *leaving)
{
    for (int i = 0; i < DEPTH; i++) {
        if (leaving[i].done) {
            REAL(cuEventDestroy_v2)(leaving[i].done);
        }
    }
}

int memory_evict(struct device *device, uint64_t bytes,
                 void (*report)(struct device *device, uint64_t bytes, bool last, bool failed))
{
    uint64_t began = now_ns();
    struct leaving leaving[DEPTH] = {{0}};
    int error = 0;
    uint64_t issued = 0;
    LOCK_SCOPE(&contexts_lock);
    LOCK_SCOPE(&blocks_lock);
    struct cursor cursor = {blocks_count(), 0};
    bool pushed = device_push(device);
    CUstream stream = pushed ? device_stream(device) : NULL;
    if (!stream || !make_events(leaving)) {
        end_events(leaving);
        if (pushed) {
            device_pop();
        }
        report(device, 0, true, true);
        return -ENOMEM;
    }
    for (unsigned turn = 0;; turn++) {
        struct leaving *slot = &leaving[turn % DEPTH];
        if (slot->block) {
            uint64_t left = end_leaving(slot);
            if (left) {
                report(device, left, false, false);
            } else {
                error = -ENOMEM;
            }
        }
        struct block *block = NULL;
        if (!error && issued < bytes) {
            block = next_present(device, &cursor);
        }
        if (block) {
            if (begin_leaving(slot, block, cursor.chunk - 1, stream) != CUDA_SUCCESS) {
                error = -ENOMEM;
            } else {
                issued += block->chunks[cursor.chunk - 1].bytes;
                continue;
            }
        }
        if (!leaving[(turn + 1) % DEPTH].block) {
            break;
        }
    }
    end_events(leaving);
    device_pop();
    moved.evicted_ns += now_ns() - began;
    report(device, 0, true, error != 0);
    return error;
}

/* Maps one missing chunk and starts its copy. */
static CUresult begin_coming(struct block *block, uint32_t index, CUstream stream)
{
    struct chunk *chunk = &block->chunks[index];
    CUdeviceptr at = block_at(block, index);
    CUresult result = chunk_map(chunk, at, block->device->ordinal);
    if (result == CUDA_SUCCESS && chunk->host) {
        result = REAL(cuMemcpyHtoDAsync_v2)(at, chunk->host, chunk->bytes, stream);
        if (result != CUDA_SUCCESS) {
            chunk_unmap(chunk, at);
        }
    }
    if (result == CUDA_SUCCESS) {
        block->device->resident_bytes += chunk->bytes;
        block->device->credit_bytes -= chunk->bytes;
    }
    return result;
}

static void end_coming(struct device *device, CUstream stream)
{
    if (REAL(cuStreamSynchronize)(stream) != CUDA_SUCCESS) {
        say("end the program; its context is broken", "could not bring device memory back");
    }
    for (size_t b = 0; b < blocks_count(); b++) {
        struct block *block = blocks_get(b);
        for (uint32_t i = 0; block->device == device && i < block->chunk_count; i++) {
            struct chunk *chunk = &block->chunks[i];
            if (chunk->present && chunk->host) {
                arena_give_back(chunk->host, chunk->bytes);
                chunk->host = NULL;
                moved.restored_bytes += chunk->bytes;
            }
        }
    }
}

bool memory_restore(struct device *device)
{
    uint64_t began = now_ns();
    bool complete = true;
    bool started = false;
    LOCK_SCOPE(&contexts_lock);
    LOCK_SCOPE(&blocks_lock);
    CUstream stream = NULL;
    for (size_t b = 0; b < blocks_count() && complete; b++) {
        struct block *block = blocks_get(b);
        for (uint32_t i = 0; block->device == device && i < block->chunk_count; i++) {
            if (block->chunks[i].present) {
                continue;
            }
            if (block->chunks[i].bytes > device->credit_bytes) {
                complete = false;
                break;
            }
            if (!started) {
                started = device_push(device);
                stream = started ? device_stream(device) : NULL;
            }
            if (!stream || begin_coming(block, i, stream) != CUDA_SUCCESS) {
                complete = false; /* tried again: the driver may still be freeing others' memory */
                break;
            }
        }
    }
    if (stream) {
        end_coming(device, stream);
    }
    if (started) {
        device_pop();
        moved.restored_ns += now_ns() - began;
    }
    return complete;
}

struct memory_moved memory_moved(void) { return moved; }
