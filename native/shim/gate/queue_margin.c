#include "shim/gate/queue_margin.h"

#define MS 1000000ull
/* The part of a tight bound for a thread that is never late. */
#define PART_OF 5
#define PART 2
/* How long the whole holds after the GPU has run dry: twice as long each time that it runs dry soon
 * after. */
#define SHORTEST_NS (10 * MS)
#define LONGEST_NS (1000 * MS)
#define SOON 8

uint64_t queue_margin_bound(const struct queue_margin *margin, uint64_t bound_ns, uint64_t now_ns)
{
    return now_ns < margin->whole_until_ns ? bound_ns : bound_ns * PART / PART_OF;
}

void queue_margin_ran_dry(struct queue_margin *margin, uint64_t now_ns)
{
    if (now_ns >= margin->whole_until_ns) {
        uint64_t again_ns = now_ns - margin->whole_until_ns;
        uint64_t for_ns = again_ns < SOON * margin->whole_for_ns ? 2 * margin->whole_for_ns : 0;
        for_ns = for_ns < SHORTEST_NS ? SHORTEST_NS : for_ns;
        margin->whole_for_ns = for_ns < LONGEST_NS ? for_ns : LONGEST_NS;
    }
    margin->whole_until_ns = now_ns + margin->whole_for_ns;
}
