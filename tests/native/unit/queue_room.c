/* One long kernel waits beside the one that runs, and a thread polls only for what the GPU needs soon. */
#include "shim/gate/queue_room.h"

#include "shim/gate/launch_cost.h"

#include "check.h"

#define US 1000ull
#define WHOLE (100 * US)
#define PART (40 * US)
#define WIDE (2000 * US)
#define NOW (1000000 * US)
#define LATE (60 * US) /* so much later than it wanted comes back who sleeps */
#define LOOK (1 * US)  /* of one look at an event */

/* Marks of one kernel each, that take so long and surely did before; the first began `ran_ns` ago. */
static struct queue_markers marked(uint32_t count, uint64_t each_ns, uint64_t ran_ns)
{
    struct queue_markers markers = {.count = count,
                                    .cost_ps = each_ns * 1000,
                                    .proof_ps = each_ns * 1000,
                                    .held = HELD_ALL,
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
    CHECK(room.sure_ns == 400 * US);
    CHECK(queue_room_nap_ns(room, 0, PART) == 50 * US);
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
    struct queue_markers markers = marked(2, 200 * US, 0);
    markers.held = HELD_ALL / 4;
    struct queue_room room = queue_room_until(&markers, 200 * US, PART, WHOLE, NOW);
    CHECK(room.missing_ns == 200 * US);
    CHECK(room.sure_ns == 100 * US);
    CHECK(queue_room_nap_ns(room, 0, PART) == 0);
}

static void test_no_sleep_is_longer_than_what_the_gpu_has_to_do(void)
{
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t each_ns = (1 + check_random(2000)) * US;
        struct queue_room room = room_of(1 + check_random(3), each_ns, check_random(3000) * US);
        uint64_t nap_ns = queue_room_nap_ns(room, 0, PART);
        CHECK(!nap_ns || nap_ns + 120 * US <= room.sure_ns);
    }
}

/* One thread and one GPU, in a time of their own; otherwise as in gate/queue_depth.c. */
struct trial {
    struct queue_markers markers;
    uint64_t now, gpu_ends_ns, ends_ns[QUEUE_MARKERS_MAX];
};

static void take_off(struct trial *trial)
{
    struct queue_markers *markers = &trial->markers;
    struct mark *mark = &markers->marks[markers->first];
    uint64_t from_hi = max_u64(mark->recorded_ns, markers->done_hi_ns);
    uint64_t from_lo = max_u64(mark->began_ns, markers->done_lo_ns);
    uint64_t lo = markers->busy_ns > from_hi ? markers->busy_ns - from_hi : 0;
    launch_cost_learn(markers, mark, lo, trial->now > from_lo ? trial->now - from_lo : 1);
    markers->done_lo_ns = max_u64(markers->busy_ns, mark->recorded_ns);
    markers->done_hi_ns = trial->now;
    markers->busy_ns = 0;
    markers->sum_ns -= mark->expected_ns;
    markers->first = (markers->first + 1) % QUEUE_MARKERS_MAX;
    markers->count--;
}

static void await_room(struct trial *trial, uint64_t next_ns)
{
    struct queue_markers *markers = &trial->markers;
    uint64_t polled_ns = 0;
    while (markers->count) {
        trial->now += LOOK;
        if (trial->ends_ns[markers->first] <= trial->now) {
            take_off(trial);
            continue;
        }
        struct queue_room room = queue_room_until(markers, next_ns, PART, WHOLE, trial->now);
        markers->busy_ns = trial->now;
        if (!room.missing_ns) {
            return;
        }
        uint64_t nap_ns = queue_room_nap_ns(room, polled_ns, PART);
        trial->now += nap_ns ? nap_ns + LATE : 0;
        polled_ns += nap_ns ? 0 : LOOK;
    }
}

/* What part of the time the GPU is busy with a row of kernels that is submitted again and again, in percent. */
static uint64_t busy_percent(const uint64_t *kernels_ns, size_t count)
{
    struct trial trial = {.now = NOW, .gpu_ends_ns = NOW};
    struct queue_markers *markers = &trial.markers;
    uint64_t ran_ns = 0;
    for (size_t next = 0; next < 100 * count;) {
        uint32_t batch = launch_cost_batch(markers, PART);
        uint64_t batch_ns = batch * launch_cost_for(markers, PART) / 1000;
        await_room(&trial, batch_ns ? batch_ns : PART / 2);
        uint32_t at = (markers->first + markers->count) % QUEUE_MARKERS_MAX;
        struct mark *mark = &markers->marks[at];
        *mark = (struct mark){.began_ns = trial.now, .kernels = batch};
        for (uint32_t i = 0; i < batch; i++, next++) {
            trial.now += LOOK;
            trial.gpu_ends_ns = max_u64(trial.gpu_ends_ns, trial.now) + kernels_ns[next % count];
            ran_ns += kernels_ns[next % count];
        }
        mark->recorded_ns = trial.now;
        mark->expected_ns = batch_ns ? batch_ns : PART / 2;
        trial.ends_ns[at] = trial.gpu_ends_ns;
        markers->sum_ns += mark->expected_ns;
        markers->count++;
    }
    return ran_ns * 100 / (trial.gpu_ends_ns - NOW);
}

static void test_the_gpu_is_busy(void)
{
    uint64_t alike[1] = {200 * US};
    CHECK(busy_percent(alike, 1) >= 98);
    uint64_t mixed[21] = {200 * US};
    for (int i = 1; i < 21; i++) {
        mixed[i] = 10 * US;
    }
    CHECK(busy_percent(mixed, 4) >= 70);
    CHECK(busy_percent(mixed, 21) >= 80);
    uint64_t long_one[6] = {3000 * US, 200 * US, 200 * US, 200 * US, 200 * US, 200 * US};
    CHECK(busy_percent(long_one, 6) >= 70);
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
    test_the_gpu_is_busy();
    return check_end();
}
