/* A thread gets the whole of a tight bound only while it is late. */
#include "shim/gate/queue_margin.h"

#include "check.h"

#define US 1000ull
#define MS (1000 * US)
#define TIGHT (100 * US)
#define START (5000 * MS)

static void test_a_thread_that_is_never_late_gets_a_part(void)
{
    struct queue_margin margin = {0};
    CHECK(queue_margin_bound(&margin, TIGHT, START) == 40 * US);
    CHECK(queue_margin_bound(&margin, 0, START) == 0);
}

static void test_one_that_was_late_gets_the_whole_for_a_while(void)
{
    struct queue_margin margin = {0};
    queue_margin_ran_dry(&margin, START);
    CHECK(queue_margin_bound(&margin, TIGHT, START) == TIGHT);
    CHECK(queue_margin_bound(&margin, TIGHT, START + 10 * MS - 1) == TIGHT);
    CHECK(queue_margin_bound(&margin, TIGHT, START + 10 * MS) == 40 * US);
    queue_margin_ran_dry(&margin, START);
    queue_margin_ran_dry(&margin, START + 9 * MS); /* late with the whole, too: it goes on */
    CHECK(queue_margin_bound(&margin, TIGHT, START + 19 * MS - 1) == TIGHT);
    CHECK(queue_margin_bound(&margin, TIGHT, START + 19 * MS) == 40 * US);
}

/* How long the whole holds from `now` on. */
static uint64_t whole_ns(const struct queue_margin *margin, uint64_t now)
{
    uint64_t at = now;
    while (queue_margin_bound(margin, TIGHT, at) == TIGHT) {
        at += MS;
    }
    return at - now;
}

static void test_one_that_is_late_again_gets_it_for_longer_each_time(void)
{
    struct queue_margin margin = {0};
    uint64_t now = START;
    for (uint64_t expected = 10 * MS; expected < 3000 * MS; expected *= 2) {
        queue_margin_ran_dry(&margin, now);
        uint64_t holds = whole_ns(&margin, now);
        CHECK(holds == (expected < 1000 * MS ? expected : 1000 * MS));
        now += holds + MS;
    }
    queue_margin_ran_dry(&margin, now + 8000 * MS); /* after long without: as at first */
    CHECK(whole_ns(&margin, now + 8000 * MS) == 10 * MS);
}

int main(void)
{
    test_a_thread_that_is_never_late_gets_a_part();
    test_one_that_was_late_gets_the_whole_for_a_while();
    test_one_that_is_late_again_gets_it_for_longer_each_time();
    return check_end();
}
