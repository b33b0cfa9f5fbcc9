#include "shim/pace.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/costs.h"
#include "shim/gate.h"
#include "shim/real.h"
#include "shim/say.h"
#include "shim/track.h"

#define US 1000ull
/* A wait shorter than this is spent asking again and again: sleeping takes longer. */
#define SPIN_NS (60 * US)
#define NAP_NS (20 * US)
#define LONG_NAP_NS (1000 * US)
/* But where a bound may cost no throughput: whoever waits is there before the GPU is through. */
#define WIDE_NAP_NS (200 * US)
/* Work that waits for other work may wait for what its own thread submits next: no wait is longer
 * than this, or than a few times what was ever seen, and each that was in vain lets more pass. */
#define PATIENCE_NS (100000 * US)
#define PATIENCE_MAX_NS (1000000 * US)
/* And this is the limit for programs that are known to submit such work. */
#define IMPATIENCE_NS (5000 * US)
/* Graphs so short that a look at each would be felt are counted together, up to this part of the bound. */
#define SHORT_NS (1 * US)
#define RUN_PART 16
#define RUN_MAX 64

uint64_t pace_bound_ns;
__thread struct pace_here pace_here __attribute__((tls_model("initial-exec")));

void pace_set(uint64_t queue_us)
{
    __atomic_store_n(&pace_bound_ns, queue_us * US, __ATOMIC_RELAXED);
}

static _Atomic bool impatient;

void pace_be_impatient(void) { atomic_store_explicit(&impatient, true, memory_order_relaxed); }

static uint64_t bound_now(void) { return __atomic_load_n(&pace_bound_ns, __ATOMIC_RELAXED); }

/* ---- waiting, outside the gate ---- */

static void take_off(struct track *track, bool is_done)
{
    struct mark *mark = &track->marks[track->first];
    if (is_done) {
        uint64_t now = now_ns();
        uint64_t from_hi = max_u64(mark->recorded_ns, track->done_hi_ns);
        uint64_t from_lo = max_u64(mark->began_ns, track->done_lo_ns);
        uint64_t lo = track->busy_ns > from_hi ? track->busy_ns - from_hi : 0;
        cost_learn(track, mark, lo, now > from_lo ? now - from_lo : 1);
        track->done_lo_ns = max_u64(track->busy_ns, mark->recorded_ns);
        track->done_hi_ns = now;
        track->given_up = 0;
    }
    track->busy_ns = 0;
    track->sum_ns -= mark->expected_ns;
    track->first = (track->first + 1) % TRACK_MARKS;
    track->count--;
}

/* How long it is until `next_ns` more fit under the bound; 0: they do. A last little rest of what runs
 * counts for nothing, or the GPU would stand still between two long kernels. */
static uint64_t until_room_ns(const struct track *track, uint64_t next_ns, uint64_t bound_ns,
                              uint64_t now)
{
    const struct mark *oldest = &track->marks[track->first];
    uint64_t began = max_u64(oldest->began_ns, track->done_hi_ns);
    uint64_t ran = now > began ? now - began : 0;
    if (ran > oldest->expected_ns) {
        ran = 0; /* it takes longer than was thought, and so may the others */
    }
    if (track->count < 2 && bound_ns >= WIDE_NS) {
        return 0;
    }
    uint64_t rest = track->sum_ns - ran;
    uint64_t allowed = max_u64(bound_ns > next_ns ? bound_ns - next_ns : 0, bound_ns / 8);
    if (track->count == TRACK_MARKS) {
        return max_u64(rest > allowed ? rest - allowed : 0, 1);
    }
    return rest > allowed ? rest - allowed : 0;
}

static void take_a_nap(uint64_t waited_ns, uint64_t missing_ns, uint64_t bound_ns)
{
    struct timespec nap = {0, NAP_NS};
    if (missing_ns > 2 * SPIN_NS) {
        uint64_t most = bound_ns < WIDE_NS ? LONG_NAP_NS : WIDE_NAP_NS;
        nap.tv_nsec = (long)min_u64(missing_ns / 2, most);
    } else if (waited_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    syscall(SYS_nanosleep, &nap,
            NULL); /* not nanosleep(3): nobody is cancelled in the middle of a call */
}

static bool is_patient(const struct track *track, uint64_t waited_ns)
{
    if (atomic_load_explicit(&impatient, memory_order_relaxed)) {
        return waited_ns < IMPATIENCE_NS;
    }
    uint64_t patience = min_u64(max_u64(4 * track->slowest_ns, PATIENCE_NS), PATIENCE_MAX_NS);
    return waited_ns < patience * (track->given_up + 1);
}

/* Takes off the marks that are done, and waits for as many as it takes. */
static void await_room(struct track *track, uint64_t next_ns)
{
    struct mw_slot *slot = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture may begin elsewhere */
    uint64_t began = 0;
    if (!track->count) {
        return;
    }
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    while (track->count && !atomic_load(&track->lost)) {
        CUresult result = REAL(cuEventQuery)(track->marks[track->first].event);
        if (result != CUDA_ERROR_NOT_READY) {
            take_off(track, result == CUDA_SUCCESS);
            continue;
        }
        uint64_t now = now_ns();
        uint64_t bound = bound_now();
        uint64_t missing = until_room_ns(track, next_ns, bound, now);
        track->busy_ns = now;
        if (!bound || !missing) {
            break;
        }
        if (!began) {
            began = now;
            slot = gate_block();
        }
        if (!is_patient(track, now - began)) {
            track->given_up++;
            break;
        }
        take_a_nap(now - began, missing, bound);
    }
    if (began) {
        gate_unblock(slot);
    }
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

/* ---- counting ---- */

static uint32_t kernels_so_far(const struct track *track)
{
    return track->granted - pace_here.left;
}

static uint64_t kernels_ns(const struct track *track)
{
    return kernels_so_far(track) * cost_for(track, track->bound_ns) / 1000;
}

static void begin_batch(struct track *track, uint64_t bound_ns)
{
    uint32_t fits = cost_batch(track, bound_ns);
    track->batch = (uint32_t)min_u64(fits, 2 * (uint64_t)track->batch);
    uint32_t extra = 1u << min_u64(track->given_up, 12);
    track->granted = track->given_up ? (uint32_t)max_u64(track->batch, extra) : track->batch;
    track->began_ns = now_ns();
    track->key = NULL;
    track->longs = 0;
    track->longs_ns = track->others_ns = 0;
    pace_here.left = track->granted;
}

/* The bound changed while a batch was under way: what it may still grow to. */
static void fit_batch(struct track *track, uint64_t bound_ns)
{
    track->bound_ns = bound_ns;
    if (!pace_here.left) {
        return;
    }
    uint32_t fits = cost_batch(track, bound_ns);
    uint32_t so_far = kernels_so_far(track);
    if (fits < track->granted) {
        pace_here.left = so_far < fits ? fits - so_far : 1;
        track->granted = so_far + pace_here.left;
    }
}

static struct track *enter(CUstream stream)
{
    struct pace_here *here = &pace_here;
    struct track *track = here->track;
    if (track && here->stream == stream && (here->left > 1 || track_is_good(track, stream))) {
        return track;
    }
    if (track) {
        track->left = here->left;
    }
    track = track_of(stream);
    here->track = track;
    here->stream = stream;
    here->left = track ? track->left : BATCH_MAX; /* without marks there is no bound */
    return track;
}

/* The rest of a run was not submitted. */
static void end_run(void)
{
    struct pace_here *here = &pace_here;
    if (here->run) {
        here->track->longs -= here->run;
        here->track->longs_ns -= here->run * here->run_cost_ns;
        here->run = 0;
    }
}

/* After one of this cost: more of the same may follow without being looked at, as long as neither they nor
 * one more fill the batch. */
static void begin_run(struct track *track, uint64_t cost_ns, uint64_t most, uint64_t room_ns)
{
    pace_here.run = (uint32_t)min_u64(most, room_ns / cost_ns);
    pace_here.run_key = track->key;
    pace_here.run_cost_ns = cost_ns;
    track->longs += pace_here.run;
    track->longs_ns += pace_here.run * cost_ns;
}

static bool count_long(struct track *track, const void *key, uint64_t bound_ns)
{
    struct pace_here *here = &pace_here;
    uint64_t cost = cost_of_long(key);
    uint64_t run = cost && cost <= SHORT_NS ? min_u64(bound_ns / RUN_PART / cost, RUN_MAX) : 0;
    await_room(track, cost ? cost + run * cost : bound_ns / 2);
    if (!here->left) {
        begin_batch(track, bound_ns);
    }
    if (track->key != key) {
        track->others_ns += track->longs_ns;
        track->longs_ns = 0;
        track->longs = 0;
        track->key = key;
    }
    track->longs++;
    track->longs_ns += cost;
    uint64_t batch_ns = kernels_ns(track) + track->others_ns + track->longs_ns;
    if (cost && batch_ns + cost <= bound_ns / 2) {
        begin_run(track, cost, run, bound_ns / 2 - batch_ns - cost);
        return false;
    }
    track->granted = kernels_so_far(track);
    here->left = 0;
    return true;
}

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = REAL(cuStreamIsCapturing)(stream, &status);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        return false;
    }
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool turn(CUstream stream, const void *key)
{
    struct pace_here *here = &pace_here;
    uint64_t bound = bound_now();
    if (!bound || (gate_slot && gate_slot->depth)) {
        return false; /* the driver calls itself, inside our gate */
    }
    end_run();
    struct track *track = enter(stream);
    here->bound_ns = bound;
    if (!track) {
        here->left--;
        return false;
    }
    if (track->bound_ns != bound) {
        fit_batch(track, bound);
    }
    if (key) {
        return count_long(track, key, bound);
    }
    if (!here->left) {
        uint64_t batch_ns = cost_batch(track, bound) * cost_for(track, bound) / 1000;
        await_room(track, batch_ns ? batch_ns : bound / 2);
        begin_batch(track, bound);
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

static void record(struct track *track, CUstream stream)
{
    struct mark *mark = &track->marks[(track->first + track->count) % TRACK_MARKS];
    if (track->count == TRACK_MARKS || is_capturing(stream)) {
        return; /* the next one will stand for these as well */
    }
    if ((!mark->made && !track_make_event(track, mark)) ||
        REAL(cuEventRecord)(mark->event, stream) != CUDA_SUCCESS) {
        pace_here.left = track->granted = BATCH_MAX; /* go on without a bound */
        return;
    }
    mark->began_ns = track->began_ns;
    mark->recorded_ns = now_ns();
    mark->kernels = track->granted;
    mark->key = track->key;
    mark->longs = track->longs;
    mark->others_ns = kernels_ns(track) + track->others_ns;
    mark->expected_ns = mark->others_ns + track->longs_ns;
    if (!track->cost_ps || (track->longs && !track->longs_ns)) {
        mark->expected_ns += track->bound_ns / 2; /* nobody knows */
    }
    track->sum_ns += mark->expected_ns;
    track->count++;
}

void pace_mark(CUstream stream, CUresult result)
{
    struct track *track = pace_here.track;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int kept = errno;
    if (!track || result != CUDA_SUCCESS || !track_is_good(track, stream)) {
        return;
    }
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    record(track, stream);
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    errno = kept;
}

void pace_forget_stream(CUstream stream) { track_forget_stream(stream); }

void pace_forget_context(CUcontext context) { track_forget_context(context); }

void pace_after_fork(void)
{
    pace_bound_ns = 0;
    pace_here = (struct pace_here){0};
    track_after_fork();
}
