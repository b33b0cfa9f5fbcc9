#include "shim/swap/transfer.h"

#include "shim/base/message.h"

#define RATE_START 10e9     /* bytes a second, until copies have shown it */
#define WINDOW_NS 500000ull /* what is measured over less says little */
#define FADING 0.98         /* of the best rate seen, from window to window */

#define AHEAD_NS 8e6 /* of copying begun ahead: this thread may get a CPU as late as that */

struct transfer_totals transfer_totals;

static double rate_of(const struct direction *way)
{
    return way->rate > 0 ? way->rate : RATE_START;
}

static uint64_t bytes_of(const struct move *move)
{
    return move->extent->chunks[move->index].bytes;
}

bool transfer_has_place(const struct direction *way)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < way->count; i++) {
        bytes += bytes_of(&way->moves[(way->first + i) % COPY_DEPTH]);
    }
    return way->count < 2 ||
           (way->count < COPY_DEPTH && way->rate > 0 && (double)bytes * 1e9 / way->rate < AHEAD_NS);
}

struct move *transfer_begin(struct direction *way, CUevent done[], CUevent *event)
{
    uint32_t slot = (way->first + way->count) % COPY_DEPTH;
    if (way->count++ == 0) {
        way->began_ns = way->window_ns = now_ns();
        way->window_bytes = 0;
    }
    *event = done[slot];
    way->moves[slot].began_ns = now_ns();
    return &way->moves[slot];
}

struct move transfer_end(struct direction *way, uint64_t bytes, uint64_t *busy_ns)
{
    struct move done = way->moves[way->first];
    uint64_t now = now_ns();
    way->window_bytes += bytes;
    if (now >= way->window_ns + WINDOW_NS) {
        double rate = (double)way->window_bytes * 1e9 / (double)(now - way->window_ns);
        double fading = way->rate * FADING;
        way->rate = rate > fading ? rate : fading;
        way->window_bytes = 0;
        way->window_ns = now;
    }
    way->ended_ns = now;
    way->first = (way->first + 1) % COPY_DEPTH;
    if (--way->count == 0) {
        *busy_ns += now - way->began_ns;
    }
    return done;
}

uint64_t transfer_expected_ns(const struct direction *way)
{
    const struct move *move = &way->moves[way->first];
    uint64_t now = now_ns();
    uint64_t from = move->began_ns > way->ended_ns ? move->began_ns : way->ended_ns;
    uint64_t due = from + (uint64_t)((double)bytes_of(move) * 1e9 / rate_of(way) * 0.95);
    return due > now + POLL_AGAIN_NS ? due - now : POLL_AGAIN_NS;
}

void transfer_unmap(struct transfer *transfer, struct extent *extent, uint32_t index)
{
    extent_unmap_chunk(extent, index);
    chunk_transition(&extent->chunks[index], CHUNK_EVICTED);
    transfer->device->resident_bytes -= extent->chunks[index].bytes;
}
