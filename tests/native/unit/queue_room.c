/* One long kernel waits beside the one that runs, and a thread polls only for what the GPU needs soon. */
#include "shim/gate/queue_room.h"

#include "check.h"

#define US 1000ull
#define WHOLE (100 * US)
#define PART (40 * US)
#define WIDE (2000 * US)
#define NOW (1000000 * US)

/* Marks of one kernel each, that take so long and surely did before; the first began `ran_ns` ago. */
static struct queue_markers marked(uint32_t count, uint64_t each_ns, uint64_t ran_ns)
{
    struct queue_markers markers = {.count = count,
                                    .cost_ps = each_ns * 1000,
                                    .proof_ps = each_ns * 1000,
                                    .sum_ns = count * each_ns};
    for (uint32_t i = 0; i < count; i++) {
        markers.marks[i] =
            (struct mark){.began_ns = NOW - ran_ns, .expected_ns = each_ns, .kernels = 1};
    }
    return markers;
}

static struct queue_room room_of(uint32_t count, uint64_t each_ns, uint64_t ran_ns)
{
    struct queue_markers markers = marked(count, each_ns, ran_ns);
    return queue_room_until(&markers, each_ns, PART, WHOLE, NOW);
}

static void test_one_long_kernel_waits_beside_the_one_that_runs(void)
{
    CHECK(room_of(1, 200 * US, 0).missing_ns == 0);
    CHECK(room_of(1, 200 * US, 500 * US).missing_ns == 0); /* also when that takes longer */
    CHECK(room_of(2, 200 * US, 0).missing_ns == 200 * US);
    CHECK(room_of(2, 200 * US, 150 * US).missing_ns == 50 * US);
    CHECK(room_of(3, 200 * US, 200 * US).missing_ns == 200 * US);
}

static void test_of_longer_ones_the_last_part_does_not_count(void)
{
    CHECK(room_of(1, 5000 * US, 0).missing_ns == 4700 * US);
    CHECK(room_of(1, 5000 * US, 4700 * US).missing_ns == 0);
    CHECK(room_of(1, 5000 * US, 5000 * US).missing_ns == 0);
}

static void test_short_ones_fill_the_bound(void)
{
    CHECK(room_of(1, 20 * US, 0).missing_ns == 0);
    CHECK(room_of(2, 20 * US, 0).missing_ns == 20 * US);
    CHECK(room_of(4, 20 * US, 10 * US).missing_ns == 50 * US);
}

static void test_a_wide_bound_always_has_one_beside(void)
{
    struct queue_markers markers = marked(1, 9000 * US, 0);
    CHECK(queue_room_until(&markers, 9000 * US, WIDE, WIDE, NOW).missing_ns == 0);
    markers = marked(2, 1500 * US, 0);
    CHECK(queue_room_until(&markers, 1500 * US, WIDE, WIDE, NOW).missing_ns == 2500 * US);
}

static void test_there_is_no_room_without_a_mark(void)
{
    CHECK(room_of(QUEUE_MARKERS_MAX, US, 0).missing_ns != 0);
}

static void test_who_has_time_sleeps(void)
{
    struct queue_room room = room_of(2, 200 * US, 0);
    CHECK(room.spare_ns == 200 * US);
    CHECK(queue_room_nap_ns(room, 0, PART) == 100 * US);
    room = room_of(2, 200 * US, 190 * US);
    CHECK(queue_room_nap_ns(room, 0, PART) == 20 * US); /* and is back before the GPU is done */
    room = room_of(2, 200 * US, 201 * US);
    CHECK(queue_room_nap_ns(room, 0, PART) == 20 * US);
}

static void test_who_has_none_polls_for_a_while(void)
{
    struct queue_room room = room_of(2, 20 * US, 0);
    CHECK(queue_room_nap_ns(room, 0, PART) == 0);
    CHECK(queue_room_nap_ns(room, 119 * US, PART) == 0);
    CHECK(queue_room_nap_ns(room, 120 * US, PART) == 20 * US);
}

static void test_what_is_only_believed_is_no_reason_to_sleep(void)
{
    struct queue_markers markers = marked(2, 110 * US, 0); /* of which 15 were seen */
    markers.proof_ps = 15 * US * 1000;
    struct queue_room room = queue_room_until(&markers, 110 * US, PART, WHOLE, NOW);
    CHECK(room.missing_ns == 110 * US);
    CHECK(room.spare_ns == 15 * US);
    markers.marks[0].longs = 1; /* graphs: what they take is not known so well */
    CHECK(queue_room_until(&markers, 110 * US, PART, WHOLE, NOW).spare_ns == 0);
}

static void test_no_sleep_is_longer_than_what_the_gpu_has_to_do(void)
{
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t each_ns = (1 + check_random(2000)) * US;
        struct queue_room room = room_of(1 + check_random(3), each_ns, check_random(3000) * US);
        uint64_t nap_ns = queue_room_nap_ns(room, 0, PART);
        CHECK(!nap_ns || nap_ns + 120 * US <= room.missing_ns + room.spare_ns);
    }
}

int main(void)
{
    test_one_long_kernel_waits_beside_the_one_that_runs();
    test_of_longer_ones_the_last_part_does_not_count();
    test_short_ones_fill_the_bound();
    test_a_wide_bound_always_has_one_beside();
    test_there_is_no_room_without_a_mark();
    test_who_has_time_sleeps();
    test_who_has_none_polls_for_a_while();
    test_what_is_only_believed_is_no_reason_to_sleep();
    test_no_sleep_is_longer_than_what_the_gpu_has_to_do();
    return check_end();
}
