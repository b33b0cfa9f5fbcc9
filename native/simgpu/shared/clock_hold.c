#include "simgpu/shared/clock_hold.h"

#include <errno.h>
#include <pthread.h>

#include "simgpu/shared/clock.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/slot_set.h"
#include "simgpu/shared/state_layout.h"

#define LOOKS 64u /* of a waiting thread at the clock, until it looks at the holders */

static unsigned threads; /* of this process that hold it; guarded by the lock */

static struct sg_clock *lock(void)
{
    if (pthread_mutex_lock(&sg_state->clock_lock) == EOWNERDEAD) {
        pthread_mutex_consistent(&sg_state->clock_lock);
    }
    return &sg_state->clock;
}

static void unlock(void) { pthread_mutex_unlock(&sg_state->clock_lock); }

/* The slot of this process. SG_NO_SLOT: it holds no clock. */
static unsigned own_slot(void)
{
    const struct sg_process *process = sg_process;
    return process && sg_state->machine.profile[0].charged ? (unsigned)(process - sg_state->process)
                                                           : SG_NO_SLOT;
}

/* With the lock. The clock goes on at the moment at which it stands, or stands at the moment that it is. */
static void set_word(struct sg_clock *clock, int stands)
{
    uint64_t value = sg_now_ns();
    if ((clock->word & 1) == (uint64_t)stands) {
        return;
    }
    if (!stands) {
        value = sg_monotonic_now_ns() - value;
    }
    __atomic_store_n(&clock->word, value << 1 | (uint64_t)stands, __ATOMIC_RELEASE);
}

static void end_hold(struct sg_clock *clock, unsigned slot)
{
    sg_slots_remove(clock->holders, slot);
    if (sg_slots_empty(clock->holders)) {
        set_word(clock, 0);
    }
}

void sg_clock_hold(void)
{
    unsigned slot = own_slot();
    if (slot == SG_NO_SLOT) {
        return;
    }
    struct sg_clock *clock = lock();
    threads++;
    sg_slots_add(clock->holders, slot);
    set_word(clock, 1);
    unlock();
}

void sg_clock_release(void)
{
    unsigned slot = own_slot();
    if (slot == SG_NO_SLOT) {
        return;
    }
    struct sg_clock *clock = lock();
    if (--threads == 0) {
        end_hold(clock, slot);
    }
    unlock();
}

void sg_clock_free_of_dead(void)
{
    static __thread unsigned looks;
    if (!sg_state || !(__atomic_load_n(&sg_state->clock.word, __ATOMIC_ACQUIRE) & 1) ||
        ++looks % LOOKS) {
        return;
    }
    struct sg_clock *clock = lock();
    for (unsigned slot = 0; slot < SG_PROCESSES_MAX; slot++) {
        if (sg_slots_have(clock->holders, slot) && !sg_process_lives(&sg_state->process[slot])) {
            sg_slots_remove(clock->holders, slot);
        }
    }
    if (sg_slots_empty(clock->holders)) { /* one may have ended in the middle of its release */
        set_word(clock, 0);
    }
    unlock();
}

void sg_clock_forget(unsigned slot)
{
    struct sg_clock *clock = lock();
    if (sg_slots_have(clock->holders, slot)) {
        end_hold(clock, slot);
    }
    unlock();
}
