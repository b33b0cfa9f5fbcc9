#include "shim/gate/queue_room.h"

#include <stdbool.h>

#include "shim/gate/launch_cost.h"

#define US 1000ull
/* So much before the GPU runs dry a thread polls, because who sleeps may come back this much later than it wanted. With a
 * bound that costs no throughput that is less: there is other work to do until then. */
#define SPIN_NS (120 * US)
#define SPIN_WIDE_NS (60 * US)
#define NAP_NS (20 * US)
#define LONG_NAP_NS (1000 * US)
/* The longest nap with a bound that may cost no throughput (WIDE_NS): the thread is back before the
 * GPU has run out of work. */
#define WIDE_NAP_NS (200 * US)
/* With a tight bound, a kernel of up to three bounds may wait beside the one that runs, and of a longer one the last three
 * bounds count as nothing. */
#define BESIDE 3

/* How much of running work does not count, or the GPU would stand still between two long kernels. */
static uint64_t rest_ns(uint64_t next_ns, uint64_t bound_ns, uint64_t whole_ns)
{
    if (bound_ns >= WIDE_NS) {
        return max_u64(bound_ns / 8, min_u64(next_ns / 4, bound_ns / 2));
    }
    return max_u64(bound_ns / 8, min_u64(next_ns, BESIDE * whole_ns));
}

/* What the GPU surely has to do until it runs dry. A thread that sleeps learns little of what work takes: so what is
 * only believed is no reason to sleep. */
static uint64_t surely_left_ns(const struct queue_markers *markers, const struct mark *oldest,
                               uint64_t ran_ns, uint64_t over_ns)
{
    uint64_t believed_ns = markers->sum_ns - (over_ns ? oldest->expected_ns : 0);
    uint64_t surely_ns = launch_cost_surely(markers, believed_ns);
    return surely_ns > ran_ns ? surely_ns - ran_ns : 0;
}

struct queue_room queue_room_until(const struct queue_markers *markers, uint64_t next_ns,
                                   uint64_t bound_ns, uint64_t whole_ns, uint64_t now)
{
    const struct mark *oldest = &markers->marks[markers->first];
    bool is_wide = bound_ns >= WIDE_NS;
    uint64_t began = max_u64(oldest->began_ns, markers->done_hi_ns);
    uint64_t ran = now > began ? now - began : 0;
    uint64_t over = ran > oldest->expected_ns ? ran - oldest->expected_ns : 0;
    bool is_long = next_ns > bound_ns / 2 && next_ns <= BESIDE * whole_ns;
    struct queue_room room = {0, 0};
    if (markers->count < 2 && (is_wide || is_long)) {
        return room;
    }
    if (over) {
        ran = 0; /* it takes longer than expected, and so may the later batches */
    }
    uint64_t rest = markers->sum_ns - ran;
    uint64_t fits = bound_ns > next_ns ? bound_ns - next_ns : 0;
    uint64_t allowed = max_u64(fits, rest_ns(next_ns, bound_ns, whole_ns));
    bool is_full = markers->count == QUEUE_MARKERS_MAX;
    if (rest <= allowed) {
        room.missing_ns = is_full;
        return room;
    }
    room.missing_ns = room.sure_ns = rest - allowed;
    if (is_wide) {
        return room;
    }
    if (over) { /* it may end at any moment */
        room.missing_ns = max_u64(NAP_NS, min_u64(over, rest - allowed));
    }
    room.sure_ns = surely_left_ns(markers, oldest, ran, over);
    return room;
}

uint64_t queue_room_nap_ns(struct queue_room room, uint64_t polled_ns, uint64_t bound_ns)
{
    bool is_wide = bound_ns >= WIDE_NS;
    uint64_t spin_ns = is_wide ? SPIN_WIDE_NS : SPIN_NS;
    if (room.sure_ns > spin_ns) {
        /* A part of it: what a kernel takes is learned from when it is seen to run. */
        uint64_t part_ns = max_u64(room.missing_ns / (is_wide ? 2 : 4), NAP_NS);
        uint64_t most_ns = is_wide ? WIDE_NAP_NS : LONG_NAP_NS;
        return min_u64(min_u64(part_ns, room.sure_ns - spin_ns), most_ns);
    }
    return polled_ns < spin_ns ? 0 : NAP_NS;
}
