/* A thread has the whole of a tight bound only while it is often late. */
#include "shim/gate/queue_margin.h"

#include "check.h"

#define TIGHT 100000ull
#define PART 40000ull

/* So many batches, of which every `nth` is late; the bound after the last one. */
static uint64_t after(struct queue_margin *margin, unsigned batches, unsigned nth)
{
    for (unsigned i = 1; i <= batches; i++) {
        queue_margin_learn(margin, nth && i % nth == 0);
    }
    return queue_margin_bound(margin, TIGHT);
}

static void test_a_thread_that_is_in_time_has_a_part(void)
{
    struct queue_margin margin = {0};
    CHECK(queue_margin_bound(&margin, TIGHT) == PART);
    CHECK(queue_margin_bound(&margin, 0) == 0);
    CHECK(after(&margin, 100000, 0) == PART);
}

static void test_one_that_is_late_now_and_then_has_a_part(void)
{
    struct queue_margin margin = {0};
    CHECK(after(&margin, 100000, 20) == PART);
    margin = (struct queue_margin){0};
    CHECK(after(&margin, 3, 1) == PART); /* a few times in a row */
}

static void test_one_that_is_often_late_has_the_whole(void)
{
    struct queue_margin margin = {0};
    CHECK(after(&margin, 1000, 10) == TIGHT);
    CHECK(after(&margin, 100000, 10) == TIGHT);
    margin = (struct queue_margin){0};
    CHECK(after(&margin, 4, 1) == TIGHT);
}

static void test_it_has_a_part_again_once_it_was_in_time_for_a_while(void)
{
    struct queue_margin margin = {0};
    CHECK(after(&margin, 1000000, 1) == TIGHT);
    CHECK(after(&margin, 127, 0) == TIGHT);
    CHECK(after(&margin, 1, 0) == PART);
}

int main(void)
{
    test_a_thread_that_is_in_time_has_a_part();
    test_one_that_is_late_now_and_then_has_a_part();
    test_one_that_is_often_late_has_the_whole();
    test_it_has_a_part_again_once_it_was_in_time_for_a_while();
    return check_end();
}
