#include "shim/mover.h"

#include "shim/say.h"

#define RATE_START 10e9 /* bytes a second, until copies have shown it */
#define WORTH_MEASURING (1u << 20)

struct swap_moved mover_moved;

struct move *mover_begin(struct direction *way, CUevent done[], CUevent *event)
{
    uint32_t slot = (way->first + way->count) % LANE_DEPTH;
    if (way->count++ == 0) {
        way->began_ns = now_ns();
    }
    *event = done[slot];
    way->moves[slot].began_ns = now_ns();
    return &way->moves[slot];
}

struct move mover_end(struct direction *way, uint64_t bytes, uint64_t *busy_ns)
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

uint64_t mover_expected_ns(const struct direction *way)
{
    const struct move *move = &way->moves[way->first];
    uint64_t now = now_ns();
    uint64_t from = move->began_ns > way->ended_ns ? move->began_ns : way->ended_ns;
    double rate = way->rate > 0 ? way->rate : RATE_START;
    uint64_t due =
        from + (uint64_t)((double)move->block->chunks[move->index].bytes * 1e9 / rate * 0.95);
    return due > now + LOOK_AGAIN_NS ? due - now : LOOK_AGAIN_NS;
}

void mover_take_off(struct mover *mover, struct chunk *chunk, CUdeviceptr at)
{
    chunk_unmap(chunk, at);
    mover->device->resident_bytes -= chunk->bytes;
}
