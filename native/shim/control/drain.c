#include "shim/control/drain.h"

#include "shim/agent/handshake.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"
#include "shim/control/idle_watch.h"
#include "shim/control/resume.h"
#include "shim/gate/gate.h"
#include "shim/mem/accounting.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/release.h"
#include "shim/swap/swap.h"

static struct session *session;
static drain_listener_hear *hear;
static drain_listener_lost *lost;
static uint32_t revoked_epoch;
static bool draining;
static bool granted;  /* since the drain began */
static bool reopened; /* another agent has taken this process back */

void drain_connect(struct session *of, drain_listener_hear *with, drain_listener_lost *without)
{
    session = of;
    hear = with;
    lost = without;
}

void drain_note_grant(void) { granted = true; }

void drain_note_reopened(void) { granted = reopened = true; }

void drain_count_moves(void)
{
    struct transfer_totals moved = swap_totals();
    session->counters->evicted_bytes = moved.evicted_bytes;
    session->counters->evicted_ns = moved.evicted_ns;
    session->counters->restored_bytes = moved.restored_bytes;
    session->counters->restored_ns = moved.restored_ns;
    session->counters->zero_bytes = moved.zero_bytes;
}

/* Drains once. False: again, because the lease was granted and revoked meanwhile. */
static bool drain_once(void)
{
    granted = false;
    drain_listener_begin(hear, lost);
    bool is_empty = gate_await_empty();
    if (is_empty) {
        swap_settle();
        lock_take(&contexts_lock);
        for (struct device *d = device_next(NULL); d; d = device_next(d)) {
            device_drain(d);
        }
        lock_drop(&contexts_lock);
    }
    drain_listener_end();
    return is_empty && !granted;
}

/* Waits until nothing of this process is in the driver or on a GPU. False: the gate is open again.
 * Running work may wait for threads at the gate, so messages are received meanwhile: the agent can
 * let the threads go on. */
static bool drain_all(void)
{
    uint64_t began = now_ns();
    bool drained;
    do {
        drained = drain_once();
        if (gate_is_open()) {
            return false;
        }
    } while (!drained);
    idle_watch_set(0);
    session->counters->drained_ns += now_ns() - began;
    return true;
}

static void tell_drained(void)
{
    release_after_drain();
    credits_end();
    resume_tell_drained(revoked_epoch);
    drain_count_moves();
}

static void give_way(void)
{
    draining = true;
    if (drain_all()) {
        tell_drained();
    }
    draining = false;
}

/* The work of this process is done, but not the work of other members of its gang: it waits for
 * what a thread at the gate is about to submit. */
void drain_step(uint32_t epoch)
{
    if (gate_is_open()) {
        return; /* the lease was given back meanwhile */
    }
    revoked_epoch = epoch;
    draining = true;
    gate_let_through();
    give_way();
}

/* A revoke that comes while an earlier drain goes on is the one that is answered in the end. */
void drain_revoke(uint32_t epoch)
{
    revoked_epoch = epoch;
    if (!draining) {
        give_way();
    }
}

bool drain_for_new_agent(bool *holding)
{
    draining = true;
    reopened = false;
    *holding = !drain_all();
    draining = false;
    if (reopened && !*holding) { /* the lease was revoked again meanwhile */
        tell_drained();
    }
    return !reopened;
}
