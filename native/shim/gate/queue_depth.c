#include "shim/gate/queue_depth.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"
#include "shim/gate/launch_cost.h"
#include "shim/gate/queue_markers.h"
#include "shim/gate/queue_room.h"

#define US 1000ull
/* Work may wait for what its own thread submits next. So no wait is longer than this, or than four
 * times the slowest batch, and each wait in vain lets more work pass. */
#define PATIENCE_NS (100000 * US)
#define PATIENCE_MAX_NS (1000000 * US)
/* The longest wait of a program that is known to submit such work. */
#define IMPATIENCE_NS (5000 * US)
/* Graphs up to SHORT_NS are so short that checking each would slow the program down. They are
 * counted together, up to a RUN_PART-th of the bound and RUN_MAX graphs. */
#define SHORT_NS (1 * US)
#define RUN_PART 16
#define RUN_MAX 64

uint64_t queue_depth_bound_ns;
__thread struct queue_depth_here queue_depth_here __attribute__((tls_model("initial-exec")));

void queue_depth_set(uint64_t queue_us)
{
    __atomic_store_n(&queue_depth_bound_ns, queue_us * US, __ATOMIC_RELAXED);
}

static _Atomic bool impatient;

void queue_depth_be_impatient(void)
{
    atomic_store_explicit(&impatient, true, memory_order_relaxed);
}

static uint64_t bound_now(void) { return __atomic_load_n(&queue_depth_bound_ns, __ATOMIC_RELAXED); }

/* What of a bound holds for one thread's queue: of a tight one, a part may be enough. */
static uint64_t bound_of(const struct queue_markers *markers, uint64_t bound_ns)
{
    return bound_ns < WIDE_NS ? queue_margin_bound(&markers->margin, bound_ns) : bound_ns;
}

/* The calling thread's gated calls so far, and its waits for the GPU. */
static uint64_t passes_now(void) { return gate_slot ? gate_slot->passes : 0; }

/* Which lease this is: another one, and what closes it, keeps threads from submitting. */
static uint32_t lease_now(void) { return __atomic_load_n(gate.word, __ATOMIC_RELAXED); }

/* Whether the thread has done nothing but submit since its last batch was marked. */
static bool only_submitted(const struct queue_markers *markers)
{
    return markers->passes == passes_now() && markers->lease == lease_now();
}

/* ---- waiting, outside the gate ---- */

static void take_off(struct queue_markers *markers, bool is_done)
{
    struct mark *mark = &markers->marks[markers->first];
    if (is_done) {
        uint64_t now = now_ns();
        uint64_t from_hi = max_u64(mark->recorded_ns, markers->done_hi_ns);
        uint64_t from_lo = max_u64(mark->began_ns, markers->done_lo_ns);
        uint64_t lo = markers->busy_ns > from_hi ? markers->busy_ns - from_hi : 0;
        launch_cost_learn(markers, mark, lo, now > from_lo ? now - from_lo : 1);
        markers->done_lo_ns = max_u64(markers->busy_ns, mark->recorded_ns);
        markers->done_hi_ns = now;
        markers->given_up = 0;
    }
    markers->busy_ns = 0;
    markers->sum_ns -= mark->expected_ns;
    markers->first = (markers->first + 1) % QUEUE_MARKERS_MAX;
    markers->count--;
}

/* Returns for how long it slept; 0: it only let others go first. `polled_ns`: for how long this wait has polled. */
static uint64_t take_a_nap(struct queue_room room, uint64_t polled_ns, uint64_t bound_ns)
{
    struct timespec nap = {0, (long)queue_room_nap_ns(room, polled_ns, bound_ns)};
    if (!nap.tv_nsec) {
        sched_yield();
        return 0;
    }
    uint64_t began = now_ns();
    syscall(SYS_nanosleep, &nap,
            NULL); /* not nanosleep(3): no thread may be cancelled in the middle of a call */
    return now_ns() - began;
}

static bool is_patient(const struct queue_markers *markers, uint64_t waited_ns)
{
    if (atomic_load_explicit(&impatient, memory_order_relaxed)) {
        return waited_ns < IMPATIENCE_NS;
    }
    uint64_t patience = min_u64(max_u64(4 * markers->slowest_ns, PATIENCE_NS), PATIENCE_MAX_NS);
    return waited_ns < patience * (markers->given_up + 1);
}

/* Removes the marks that are done, and waits until `next_ns` more fit under the bound. */
static void await_room(struct queue_markers *markers, uint64_t next_ns)
{
    struct mw_slot *slot = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture may begin elsewhere */
    uint64_t began = 0;
    uint64_t slept_ns = 0;
    if (!markers->count) {
        return;
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    while (markers->count && !atomic_load(&markers->lost)) {
        CUresult result = DRIVER(cuEventQuery)(markers->marks[markers->first].event);
        if (result != CUDA_ERROR_NOT_READY) {
            take_off(markers, result == CUDA_SUCCESS);
            continue;
        }
        uint64_t now = now_ns();
        uint64_t whole = bound_now();
        uint64_t bound = bound_of(markers, whole);
        struct queue_room room = queue_room_until(markers, next_ns, bound, whole, now);
        markers->busy_ns = now;
        if (!bound || !room.missing_ns) {
            break;
        }
        if (!began) {
            began = now;
            slot = gate_block();
        }
        if (!is_patient(markers, now - began)) {
            markers->given_up++;
            break;
        }
        slept_ns += take_a_nap(room, now - began - slept_ns, bound);
    }
    if (began) {
        gate_unblock(slot);
    }
    if (began || markers->count) {
        queue_margin_learn(&markers->margin, false);
    } else if (only_submitted(markers)) {
        queue_margin_learn(&markers->margin, true);
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
}

/* ---- counting ---- */

static uint32_t kernels_so_far(const struct queue_markers *markers)
{
    return markers->granted - queue_depth_here.left;
}

static uint64_t kernels_ns(const struct queue_markers *markers)
{
    return kernels_so_far(markers) * launch_cost_for(markers, markers->bound_ns) / 1000;
}

static void begin_batch(struct queue_markers *markers, uint64_t bound_ns)
{
    uint32_t fits = launch_cost_batch(markers, bound_ns);
    markers->batch = (uint32_t)min_u64(fits, 2 * (uint64_t)markers->batch);
    uint32_t extra = 1u << min_u64(markers->given_up, 12);
    markers->granted =
        markers->given_up ? (uint32_t)max_u64(markers->batch, extra) : markers->batch;
    markers->began_ns = now_ns();
    markers->key = NULL;
    markers->longs = 0;
    markers->longs_ns = markers->others_ns = 0;
    queue_depth_here.left = markers->granted;
}

/* The bound changed while a batch was under way: sets how far the batch may still grow. */
static void fit_batch(struct queue_markers *markers, uint64_t bound_ns)
{
    markers->bound_ns = bound_ns;
    if (!queue_depth_here.left) {
        return;
    }
    uint32_t fits = launch_cost_batch(markers, bound_ns);
    uint32_t so_far = kernels_so_far(markers);
    if (fits < markers->granted) {
        queue_depth_here.left = so_far < fits ? fits - so_far : 1;
        markers->granted = so_far + queue_depth_here.left;
    }
}

static struct queue_markers *enter(CUstream stream)
{
    struct queue_depth_here *here = &queue_depth_here;
    struct queue_markers *markers = here->markers;
    if (markers && here->stream == stream &&
        (here->left > 1 || queue_markers_are_good(markers, stream))) {
        return markers;
    }
    if (markers) {
        markers->left = here->left;
    }
    markers = queue_markers_of(stream);
    here->markers = markers;
    here->stream = stream;
    here->left = markers ? markers->left : BATCH_MAX; /* without marks there is no bound */
    return markers;
}

/* The rest of a run was not submitted. */
static void end_run(void)
{
    struct queue_depth_here *here = &queue_depth_here;
    if (here->run) {
        here->markers->longs -= here->run;
        here->markers->longs_ns -= here->run * here->run_cost_ns;
        here->run = 0;
    }
}

/* After a submission of this cost: lets more submissions of the same kind follow unchecked, as many
 * as leave room for one more in the batch. */
static void begin_run(struct queue_markers *markers, uint64_t cost_ns, uint64_t most,
                      uint64_t room_ns)
{
    queue_depth_here.run = (uint32_t)min_u64(most, room_ns / cost_ns);
    queue_depth_here.run_key = markers->key;
    queue_depth_here.run_cost_ns = cost_ns;
    markers->longs += queue_depth_here.run;
    markers->longs_ns += queue_depth_here.run * cost_ns;
}

static bool count_long(struct queue_markers *markers, const void *key, uint64_t bound_ns)
{
    struct queue_depth_here *here = &queue_depth_here;
    uint64_t cost = launch_cost_of_long(key);
    uint64_t run = cost && cost <= SHORT_NS ? min_u64(bound_ns / RUN_PART / cost, RUN_MAX) : 0;
    await_room(markers, cost ? cost + run * cost : bound_ns / 2);
    if (!here->left) {
        begin_batch(markers, bound_ns);
    }
    if (markers->key != key) {
        markers->others_ns += markers->longs_ns;
        markers->longs_ns = 0;
        markers->longs = 0;
        markers->key = key;
    }
    markers->longs++;
    markers->longs_ns += cost;
    uint64_t batch_ns = kernels_ns(markers) + markers->others_ns + markers->longs_ns;
    if (cost && batch_ns + cost <= bound_ns / 2) {
        begin_run(markers, cost, run, bound_ns / 2 - batch_ns - cost);
        return false;
    }
    markers->granted = kernels_so_far(markers);
    here->left = 0;
    return true;
}

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = DRIVER(cuStreamIsCapturing)(stream, &status);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        return false;
    }
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool turn(CUstream stream, const void *key)
{
    struct queue_depth_here *here = &queue_depth_here;
    uint64_t bound = bound_now();
    if (!bound || (gate_slot && gate_slot->depth)) {
        return false; /* the driver calls itself, inside our gate */
    }
    end_run();
    struct queue_markers *markers = enter(stream);
    here->bound_ns = bound;
    if (!markers) {
        here->left--;
        return false;
    }
    bound = bound_of(markers, bound);
    if (markers->bound_ns != bound) {
        fit_batch(markers, bound);
    }
    if (key) {
        return count_long(markers, key, bound);
    }
    if (!here->left) {
        uint64_t batch_ns =
            launch_cost_batch(markers, bound) * launch_cost_for(markers, bound) / 1000;
        await_room(markers, batch_ns ? batch_ns : bound / 2);
        begin_batch(markers, bound);
    }
    return --here->left == 0;
}

bool queue_depth_wait_turn(CUstream stream, const void *key)
{
    int kept = errno;
    bool is_last = turn(stream, key);
    errno = kept;
    return is_last;
}

/* ---- marking, inside the gate ---- */

static void record(struct queue_markers *markers, CUstream stream)
{
    struct mark *mark = &markers->marks[(markers->first + markers->count) % QUEUE_MARKERS_MAX];
    if (markers->count == QUEUE_MARKERS_MAX || is_capturing(stream)) {
        return; /* the next mark covers these submissions too */
    }
    if ((!mark->made && !queue_markers_make_event(markers, mark)) ||
        DRIVER(cuEventRecord)(mark->event, stream) != CUDA_SUCCESS) {
        queue_depth_here.left = markers->granted = BATCH_MAX; /* go on without a bound */
        return;
    }
    mark->began_ns = markers->began_ns;
    mark->recorded_ns = now_ns();
    mark->kernels = markers->granted;
    mark->key = markers->key;
    mark->longs = markers->longs;
    mark->others_ns = kernels_ns(markers) + markers->others_ns;
    mark->expected_ns = mark->others_ns + markers->longs_ns;
    if (!markers->cost_ps || (markers->longs && !markers->longs_ns)) {
        mark->expected_ns += markers->bound_ns / 2; /* the cost is not known */
    }
    markers->sum_ns += mark->expected_ns;
    markers->passes = passes_now();
    markers->lease = lease_now();
    markers->count++;
}

void queue_depth_mark(CUstream stream, CUresult result)
{
    struct queue_markers *markers = queue_depth_here.markers;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int kept = errno;
    if (!markers || result != CUDA_SUCCESS || !queue_markers_are_good(markers, stream)) {
        return;
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    record(markers, stream);
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    errno = kept;
}

void queue_depth_forget_stream(CUstream stream) { queue_markers_forget_stream(stream); }

void queue_depth_forget_context(CUcontext context) { queue_markers_forget_context(context); }

void queue_depth_after_fork(void)
{
    queue_depth_bound_ns = 0;
    queue_depth_here = (struct queue_depth_here){0};
    queue_markers_after_fork();
}
