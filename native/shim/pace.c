#include "shim/pace.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "shim/gate.h"
#include "shim/lane.h"
#include "shim/real.h"
#include "shim/say.h"

#define BATCH_MAX 4096u
#define KINDS 256u
#define US 1000ull
/* A wait shorter than this is spent asking again and again: sleeping takes longer. */
#define SPIN_NS (60 * US)
#define NAP_NS (20 * US)
#define LONG_NAP_NS (1000 * US)
/* Work that waits for other work may wait for what its own thread submits next: no wait is longer
 * than this, or than a few times what was ever seen, and each that was in vain lets more pass. */
#define PATIENCE_NS (100000 * US)
#define PATIENCE_MAX_NS (1000000 * US)

uint64_t pace_bound_ns;
__thread struct pace_here pace_here __attribute__((tls_model("initial-exec")));

/* What long submissions took, for all threads; who comes later takes another's place. */
static struct kind {
    const void *key;
    uint64_t cost_ns;
} kinds[KINDS];

void pace_set(uint64_t queue_us)
{
    __atomic_store_n(&pace_bound_ns, queue_us * US, __ATOMIC_RELAXED);
}

static uint64_t bound_now(void) { return __atomic_load_n(&pace_bound_ns, __ATOMIC_RELAXED); }

static struct kind *kind_of(const void *key)
{
    uintptr_t at = (uintptr_t)key;
    return &kinds[(at ^ at >> 4 ^ at >> 12) % KINDS];
}

/* 0: not known */
static uint64_t long_ns(const void *key)
{
    struct kind *kind = kind_of(key);
    uint64_t cost_ns = __atomic_load_n(&kind->cost_ns, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&kind->key, __ATOMIC_RELAXED) == key ? cost_ns : 0;
}

static uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t min_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- learning ---- */

/* A mark's batch took between lo_ns and hi_ns. */
static void learn(struct lane *lane, const struct mark *mark, uint64_t lo_ns, uint64_t hi_ns)
{
    lane->slowest_ns = max_of(lo_ns, lane->slowest_ns - lane->slowest_ns / 8);
    if (mark->longs) {
        struct kind *kind = kind_of(mark->key);
        uint64_t lo = (lo_ns > mark->others_ns ? lo_ns - mark->others_ns : 0) / mark->longs;
        uint64_t hi = max_of(hi_ns / mark->longs, 1);
        uint64_t known = long_ns(mark->key);
        __atomic_store_n(&kind->key, mark->key, __ATOMIC_RELAXED);
        __atomic_store_n(&kind->cost_ns, known ? max_of(lo, min_of(known, hi)) : hi,
                         __ATOMIC_RELEASE);
        return;
    }
    uint64_t kernels = max_of(mark->kernels, 1);
    uint64_t lo = lo_ns * 1000 / kernels;
    uint64_t hi = max_of(hi_ns * 1000 / kernels, 1);
    /* What was surely taken is forgotten slowly, or each row of short kernels would hide long ones
     * that come again; what only may have been taken, at once. */
    lane->proof_ps = max_of(lo, lane->proof_ps - lane->proof_ps / 8);
    uint64_t most = max_of(hi, lane->proof_ps);
    lane->cost_ps = max_of(lo, lane->cost_ps ? min_of(lane->cost_ps, most) : most);
}

static uint32_t batch_for(const struct lane *lane, uint64_t bound_ns)
{
    if (!lane->cost_ps) {
        return 1;
    }
    uint64_t fits = bound_ns / 2 * 1000 / lane->cost_ps;
    return (uint32_t)max_of(1, min_of(fits, BATCH_MAX));
}

/* ---- waiting, outside the gate ---- */

static void take_off(struct lane *lane, bool is_done)
{
    struct mark *mark = &lane->marks[lane->first];
    if (is_done) {
        uint64_t now = now_ns();
        uint64_t from_hi = max_of(mark->recorded_ns, lane->done_hi_ns);
        uint64_t from_lo = max_of(mark->began_ns, lane->done_lo_ns);
        uint64_t lo = lane->busy_ns > from_hi ? lane->busy_ns - from_hi : 0;
        learn(lane, mark, lo, now > from_lo ? now - from_lo : 1);
        lane->done_lo_ns = max_of(lane->busy_ns, mark->recorded_ns);
        lane->done_hi_ns = now;
        lane->given_up = 0;
    }
    lane->busy_ns = 0;
    lane->sum_ns -= mark->expected_ns;
    lane->first = (lane->first + 1) % LANE_MARKS;
    lane->count--;
}

/* How long it is until `next_ns` more fit under the bound; 0: they do. A last little rest of what runs
 * counts for nothing, or the GPU would stand still between two long kernels. */
static uint64_t until_room_ns(const struct lane *lane, uint64_t next_ns, uint64_t bound_ns,
                              uint64_t now)
{
    const struct mark *oldest = &lane->marks[lane->first];
    uint64_t began = max_of(oldest->began_ns, lane->done_hi_ns);
    uint64_t ran = now > began ? now - began : 0;
    if (ran > oldest->expected_ns) {
        ran = 0; /* it takes longer than was thought, and so may the others */
    }
    uint64_t rest = lane->sum_ns - ran;
    uint64_t allowed = max_of(bound_ns > next_ns ? bound_ns - next_ns : 0, bound_ns / 8);
    if (lane->count == LANE_MARKS) {
        return max_of(rest > allowed ? rest - allowed : 0, 1);
    }
    return rest > allowed ? rest - allowed : 0;
}

static void take_a_nap(uint64_t waited_ns, uint64_t missing_ns)
{
    struct timespec nap = {0, NAP_NS};
    if (missing_ns > 2 * SPIN_NS) {
        nap.tv_nsec = (long)min_of(missing_ns / 2, LONG_NAP_NS);
    } else if (waited_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    nanosleep(&nap, NULL);
}

static bool is_patient(const struct lane *lane, uint64_t waited_ns)
{
    uint64_t patience = min_of(max_of(4 * lane->slowest_ns, PATIENCE_NS), PATIENCE_MAX_NS);
    return waited_ns < patience * (lane->given_up + 1);
}

/* Takes off the marks that are done, and waits for as many as it takes. */
static void await_room(struct lane *lane, uint64_t next_ns)
{
    struct mw_slot *slot = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture may begin elsewhere */
    uint64_t began = 0;
    if (!lane->count) {
        return;
    }
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    while (lane->count && !gate_in_capture() && !atomic_load(&lane->lost)) {
        CUresult result = REAL(cuEventQuery)(lane->marks[lane->first].event);
        if (result != CUDA_ERROR_NOT_READY) {
            take_off(lane, result == CUDA_SUCCESS);
            continue;
        }
        uint64_t now = now_ns();
        uint64_t bound = bound_now();
        uint64_t missing = until_room_ns(lane, next_ns, bound, now);
        lane->busy_ns = now;
        if (!bound || !missing) {
            break;
        }
        if (!began) {
            began = now;
            slot = gate_block();
        }
        if (!is_patient(lane, now - began)) {
            lane->given_up++;
            break;
        }
        take_a_nap(now - began, missing);
    }
    if (began) {
        gate_unblock(slot);
    }
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

/* ---- counting ---- */

static uint32_t kernels_so_far(const struct lane *lane) { return lane->granted - pace_here.left; }

static uint64_t kernels_ns(const struct lane *lane)
{
    return kernels_so_far(lane) * lane->cost_ps / 1000;
}

static void begin_batch(struct lane *lane, uint64_t bound_ns)
{
    uint32_t fits = batch_for(lane, bound_ns);
    lane->batch = (uint32_t)min_of(fits, 2 * (uint64_t)lane->batch);
    uint32_t extra = 1u << min_of(lane->given_up, 12);
    lane->granted = lane->given_up ? (uint32_t)max_of(lane->batch, extra) : lane->batch;
    lane->began_ns = now_ns();
    lane->key = NULL;
    lane->longs = 0;
    lane->longs_ns = lane->others_ns = 0;
    pace_here.left = lane->granted;
}

/* The bound changed while a batch was under way: what it may still grow to. */
static void fit_batch(struct lane *lane, uint64_t bound_ns)
{
    lane->bound_ns = bound_ns;
    if (!pace_here.left) {
        return;
    }
    uint32_t fits = batch_for(lane, bound_ns);
    uint32_t so_far = kernels_so_far(lane);
    if (fits < lane->granted) {
        pace_here.left = so_far < fits ? fits - so_far : 1;
        lane->granted = so_far + pace_here.left;
    }
}

static struct lane *enter(CUstream stream)
{
    struct pace_here *here = &pace_here;
    struct lane *lane = here->lane;
    if (lane && here->stream == stream && (here->left > 1 || lane_is_good(lane, stream))) {
        return lane;
    }
    if (lane) {
        lane->left = here->left;
    }
    lane = lane_of(stream);
    here->lane = lane;
    here->stream = stream;
    here->left = lane ? lane->left : BATCH_MAX; /* without marks there is no bound */
    return lane;
}

static bool count_long(struct lane *lane, const void *key, uint64_t bound_ns)
{
    struct pace_here *here = &pace_here;
    uint64_t cost = long_ns(key);
    await_room(lane, cost ? cost : bound_ns / 2);
    if (!here->left) {
        begin_batch(lane, bound_ns);
    }
    if (lane->key != key) {
        lane->others_ns += lane->longs_ns;
        lane->longs_ns = 0;
        lane->longs = 0;
        lane->key = key;
    }
    lane->longs++;
    lane->longs_ns += cost;
    uint64_t batch_ns = kernels_ns(lane) + lane->others_ns + lane->longs_ns;
    if (cost && batch_ns + cost <= bound_ns / 2) {
        return false;
    }
    lane->granted = kernels_so_far(lane);
    here->left = 0;
    return true;
}

static bool turn(CUstream stream, const void *key)
{
    struct pace_here *here = &pace_here;
    uint64_t bound = bound_now();
    if (!bound || gate_in_capture() || (gate_slot && gate_slot->depth)) {
        return false; /* the last: the driver calls itself, inside our gate */
    }
    struct lane *lane = enter(stream);
    here->bound_ns = bound;
    if (!lane) {
        here->left--;
        return false;
    }
    if (lane->bound_ns != bound) {
        fit_batch(lane, bound);
    }
    if (key) {
        return count_long(lane, key, bound);
    }
    if (!here->left) {
        uint64_t batch_ns = batch_for(lane, bound) * lane->cost_ps / 1000;
        await_room(lane, batch_ns ? batch_ns : bound / 2);
        begin_batch(lane, bound);
    }
    return --here->left == 0;
}

bool pace_turn(CUstream stream, const void *key)
{
    int kept = errno;
    bool is_last = turn(stream, key);
    errno = kept;
    return is_last;
}

/* ---- marking, inside the gate ---- */

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = REAL(cuStreamIsCapturing)(stream, &status);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        return false;
    }
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void record(struct lane *lane, CUstream stream)
{
    struct mark *mark = &lane->marks[(lane->first + lane->count) % LANE_MARKS];
    if (lane->count == LANE_MARKS || is_capturing(stream)) {
        return; /* the next one will stand for these as well */
    }
    if ((!mark->made && !lane_make_event(lane, mark)) ||
        REAL(cuEventRecord)(mark->event, stream) != CUDA_SUCCESS) {
        pace_here.left = lane->granted = BATCH_MAX; /* go on without a bound */
        return;
    }
    mark->began_ns = lane->began_ns;
    mark->recorded_ns = now_ns();
    mark->kernels = lane->granted;
    mark->key = lane->key;
    mark->longs = lane->longs;
    mark->others_ns = kernels_ns(lane) + lane->others_ns;
    mark->expected_ns = mark->others_ns + lane->longs_ns;
    if (!lane->cost_ps || (lane->longs && !lane->longs_ns)) {
        mark->expected_ns += lane->bound_ns / 2; /* nobody knows */
    }
    lane->sum_ns += mark->expected_ns;
    lane->count++;
}

void pace_mark(CUstream stream, CUresult result)
{
    struct lane *lane = pace_here.lane;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int kept = errno;
    if (!lane || result != CUDA_SUCCESS || gate_in_capture() || !lane_is_good(lane, stream)) {
        return;
    }
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    record(lane, stream);
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    errno = kept;
}

void pace_forget_stream(CUstream stream) { lane_forget_stream(stream); }

void pace_forget_context(CUcontext context) { lane_forget_context(context); }

void pace_after_fork(void)
{
    pace_bound_ns = 0;
    pace_here = (struct pace_here){0};
    lane_after_fork();
}
