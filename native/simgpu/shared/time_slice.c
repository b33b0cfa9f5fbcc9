/* How a GPU's time is divided.
 *
 * Time is booked, not spent: a piece begins where the last one ended or when its work was ready, whichever is
 * later, and its thread sleeps until the end. So a thread that the host wakes late loses no time of the GPU.
 *
 * The owner books until its slice ends and then gives the turn to the next that waits, or does so as soon
 * as none of its threads has work. A process that the host delays (or that was killed, or stopped) does
 * neither: after a grace the first that waits takes the turn. A delayed process gets what it was passed over
 * with its next slice, up to a limit; a dead one is freed.
 *
 * A process may be killed at any instruction: each field below is valid by itself, and a bit that a dead
 * process left behind costs one grace.
 */
#include "simgpu/shared/time_slice.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simgpu/shared/clock.h"
#include "simgpu/shared/clock_hold.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/shared/slot_set.h"
#include "simgpu/shared/state.h"

#define GRACE_NS (1 * SG_MS)
#define CREDIT_SLICES 8

static unsigned own_slot(void) { return (unsigned)(sg_process - sg_state->process); }

/* ---- sleeping ---- */

static void wake(uint32_t *word)
{
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_on(uint32_t *word, uint32_t value, uint64_t until_ns)
{
    sg_clock_free_of_dead();
    until_ns = sg_monotonic_ns(until_ns);
    struct timespec until = {.tv_sec = (time_t)(until_ns / SG_S),
                             .tv_nsec = (long)(until_ns % SG_S)};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* ---- turns; the caller holds the device's time ---- */

static uint64_t slice_ns(unsigned device) { return sg_state->machine.profile[device].slice_ns; }

/* Processes that have work and neither wait nor own the turn are late: the host does not run their threads. */
static void credit_late(unsigned device, unsigned owner)
{
    struct sg_turns *turns = &sg_state->device[device].turns;
    uint64_t most = CREDIT_SLICES * slice_ns(device);
    for (unsigned word = 0; word < SG_PROCESSES_MAX / 64; word++) {
        uint64_t late = __atomic_load_n(&turns->busy[word], __ATOMIC_SEQ_CST) &
                        ~__atomic_load_n(&turns->waiting[word], __ATOMIC_SEQ_CST);
        for (; late; late &= late - 1) {
            unsigned slot = word * 64 + (unsigned)__builtin_ctzll(late);
            if (slot != owner && turns->credit_ns[slot] < most) {
                turns->credit_ns[slot] += slice_ns(device);
            }
        }
    }
}

static void begin_slice(unsigned device, unsigned slot, uint64_t start_ns)
{
    struct sg_turns *turns = &sg_state->device[device].turns;
    turns->slice_end_ns = start_ns + slice_ns(device) + turns->credit_ns[slot];
    turns->credit_ns[slot] = 0;
    credit_late(device, slot);
}

/* Gives the turn to the next that waits. Returns its slot, which the caller calls when it has released the
 * lock: a process that is stopped on its way out of a system call must not hold it. */
static unsigned pass_turn(unsigned device)
{
    struct sg_turns *turns = &sg_state->device[device].turns;
    unsigned next = sg_slots_next(turns->waiting, turns->owner);
    if (next != SG_NO_SLOT) {
        sg_slots_remove(turns->waiting, next);
        turns->owner = next;
        turns->begun = 0;
        turns->seen_ns = sg_now_ns();
    }
    return next;
}

static void call(unsigned device, unsigned slot)
{
    if (slot != SG_NO_SLOT) {
        wake(&sg_state->device[device].turns.call[slot]);
    }
}

/* Takes the turn from an owner whose threads do not run. Returns the slot that has it now. */
static unsigned displace(unsigned device)
{
    struct sg_device *gpu = &sg_state->device[device];
    struct sg_turns *turns = &gpu->turns;
    unsigned late = turns->owner;
    uint64_t slice = slice_ns(device);
    uint64_t left = !turns->begun ? slice
                    : turns->slice_end_ns > gpu->compute_until_ns
                        ? turns->slice_end_ns - gpu->compute_until_ns
                        : 0;
    if (turns->credit_ns[late] < CREDIT_SLICES * slice) {
        turns->credit_ns[late] += left < slice ? left : slice;
    }
    return pass_turn(device);
}

static uint64_t late_ns(unsigned device)
{
    const struct sg_device *gpu = &sg_state->device[device];
    uint64_t from =
        gpu->compute_until_ns > gpu->turns.seen_ns ? gpu->compute_until_ns : gpu->turns.seen_ns;
    return from + GRACE_NS;
}

/* Books a piece for the owner. */
static uint64_t book(unsigned device, uint64_t ready_ns, uint64_t *left_ns)
{
    struct sg_device *gpu = &sg_state->device[device];
    struct sg_turns *turns = &gpu->turns;
    uint64_t start = gpu->compute_until_ns > ready_ns ? gpu->compute_until_ns : ready_ns;
    if (turns->last != own_slot() + 1) {
        if (turns->last) {
            start += sg_state->machine.profile[device].switch_ns;
            turns->switches++;
        }
        turns->last = own_slot() + 1;
    }
    if (!turns->begun || start >= turns->slice_end_ns) {
        begin_slice(device, own_slot(), start);
        turns->begun = 1;
    }
    uint64_t room = turns->slice_end_ns - start, slice = slice_ns(device);
    room = room < slice ? room : slice;
    uint64_t piece = *left_ns < room ? *left_ns : room;
    sg_note_compute(device, start, piece);
    gpu->compute_until_ns = start + piece;
    turns->seen_ns = sg_now_ns();
    *left_ns -= piece;
    return start + piece;
}

/* What a look at the turn found. */
struct look {
    uint64_t again_ns; /* when to look again */
    unsigned called;   /* the slot that got the turn, to be called; SG_NO_SLOT: none */
    unsigned late;     /* the slot that lost the turn because its threads do not run */
};

static int is_idle(const struct sg_turns *turns, unsigned slot)
{
    return !sg_slots_have(turns->busy, slot) && !sg_slots_have(turns->waiting, slot);
}

/* Returns whether the calling process, which owns the turn, may book in it. Otherwise it passes the turn on
 * once its slice is over. */
static int may_go_on(unsigned device, uint64_t ready_ns, struct look *look)
{
    struct sg_device *gpu = &sg_state->device[device];
    struct sg_turns *turns = &gpu->turns;
    uint64_t until = gpu->compute_until_ns, start = until > ready_ns ? until : ready_ns;
    if (!turns->begun || start < turns->slice_end_ns || sg_slots_empty(turns->waiting)) {
        return 1;
    }
    if (until > sg_now_ns() + SG_WORTH_SLEEPING_NS) { /* a piece of another thread runs */
        look->again_ns = until;
        return 0;
    }
    sg_slots_add(turns->waiting, own_slot());
    look->called = pass_turn(device);
    return 0;
}

/* Returns whether the calling process may book now. */
static int may_book(unsigned device, uint64_t ready_ns, struct look *look)
{
    struct sg_turns *turns = &sg_state->device[device].turns;
    unsigned own = own_slot();
    uint64_t now = sg_now_ns();
    *look = (struct look){.called = SG_NO_SLOT, .late = SG_NO_SLOT};
    if (turns->owner == own && (may_go_on(device, ready_ns, look) || look->again_ns)) {
        return !look->again_ns;
    }
    sg_slots_add(turns->waiting, own);
    if (is_idle(turns, turns->owner)) {
        look->called = pass_turn(device);
    } else if (now >= late_ns(device)) {
        look->late = turns->owner;
        look->called = displace(device);
    }
    if (turns->owner == own) {
        return 1;
    }
    uint64_t end = turns->begun ? turns->slice_end_ns : now + slice_ns(device);
    look->again_ns = (late_ns(device) > end ? late_ns(device) : end) + GRACE_NS +
                     sg_slots_between(turns->waiting, turns->owner, own) * slice_ns(device);
    return 0;
}

/* ---- the calling process ---- */

/* Only one thread of a process waits for its turn; the others wait for that one, in their order. */
static struct line {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t last, now;
    unsigned threads; /* that have work; guarded by the lock */
} lines[SG_DEVICES_MAX] = {[0 ... SG_DEVICES_MAX - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                                         .moved = PTHREAD_COND_INITIALIZER}};

static void stand_in_line(struct line *line)
{
    pthread_mutex_lock(&line->lock);
    uint64_t own = line->last++;
    while (line->now != own) {
        pthread_cond_wait(&line->moved, &line->lock);
    }
    pthread_mutex_unlock(&line->lock);
}

static void leave_line(struct line *line)
{
    pthread_mutex_lock(&line->lock);
    line->now++;
    if (line->now != line->last) {
        pthread_cond_broadcast(&line->moved);
    }
    pthread_mutex_unlock(&line->lock);
}

static void lock_time(unsigned device)
{
    if (pthread_mutex_lock(&sg_state->time_lock[device]) == EOWNERDEAD) {
        pthread_mutex_consistent(&sg_state->time_lock[device]);
    }
}

static void unlock_time(unsigned device) { pthread_mutex_unlock(&sg_state->time_lock[device]); }

static void free_if_dead(unsigned slot)
{
    struct sg_process *process = &sg_state->process[slot];
    sg_lock();
    if (process->pid && process != sg_process && !sg_process_lives(process)) {
        sg_process_free(process);
    }
    sg_unlock();
}

/* Waits for a turn and books a piece of what is left. Returns its end. */
static uint64_t book_in_turn(unsigned device, uint64_t ready_ns, uint64_t *left_ns)
{
    uint32_t *word = &sg_state->device[device].turns.call[own_slot()];
    lock_time(device);
    for (;;) {
        struct look look;
        uint32_t calls = __atomic_load_n(word, __ATOMIC_SEQ_CST);
        if (may_book(device, ready_ns, &look)) {
            break;
        }
        unlock_time(device);
        call(device, look.called);
        if (look.late != SG_NO_SLOT) {
            free_if_dead(look.late);
        }
        sleep_on(word, calls, look.again_ns);
        lock_time(device);
    }
    uint64_t end = book(device, ready_ns, left_ns);
    unlock_time(device);
    return end;
}

static uint64_t book_at_once(unsigned device, uint64_t ready_ns, uint64_t *left_ns)
{
    uint64_t piece = *left_ns < SG_COMPUTE_SLICE_NS ? *left_ns : SG_COMPUTE_SLICE_NS;
    *left_ns -= piece;
    return sg_book(device, SG_COMPUTE, ready_ns, piece);
}

static int is_shared_at_once(unsigned device)
{
    return sg_state->machine.profile[device].mps || !slice_ns(device);
}

uint64_t sg_slice_run(unsigned device, uint64_t ready_ns, uint64_t duration_ns)
{
    struct line *line = &lines[device];
    uint64_t end = ready_ns;
    do {
        if (is_shared_at_once(device)) {
            end = book_at_once(device, end, &duration_ns);
        } else {
            stand_in_line(line);
            end = book_in_turn(device, end, &duration_ns);
            leave_line(line);
        }
        if (end > sg_now_ns() + SG_WORTH_SLEEPING_NS) {
            sg_sleep_until(end);
        }
    } while (duration_ns);
    return end;
}

void sg_slice_enter(unsigned device)
{
    struct line *line = &lines[device];
    pthread_mutex_lock(&line->lock);
    if (line->threads++ == 0 && sg_process) {
        sg_slots_add(sg_state->device[device].turns.busy, own_slot());
    }
    pthread_mutex_unlock(&line->lock);
}

static void stop_working(unsigned device, unsigned own)
{
    struct sg_turns *turns = &sg_state->device[device].turns;
    sg_slots_remove(turns->busy, own);
    turns->credit_ns[own] = 0;
    if (turns->owner != own || sg_slots_empty(turns->waiting)) {
        return;
    }
    lock_time(device);
    unsigned next = turns->owner == own ? pass_turn(device) : SG_NO_SLOT;
    unlock_time(device);
    call(device, next);
}

void sg_slice_leave(unsigned device)
{
    struct line *line = &lines[device];
    pthread_mutex_lock(&line->lock);
    const struct sg_process *process = sg_process; /* none any more, once the process exits */
    if (--line->threads == 0 && process) {
        stop_working(device, (unsigned)(process - sg_state->process));
    }
    pthread_mutex_unlock(&line->lock);
}
