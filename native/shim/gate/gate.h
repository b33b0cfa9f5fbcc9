/* The gate: every call that can start work or touch device memory passes it.
 *
 * A thread counts itself in, reads the lease word, and counts itself out afterwards: two
 * stores and a load, no lock and no system call. Closing is dear instead: the control thread
 * makes every other thread's stores visible with membarrier(2), then waits for the counts.
 * Where membarrier is not to be had, entering costs a full fence.
 *
 * The word lies in a page that the agent alone can write. Without an agent (the program was not
 * started by `moiety run`) it is a word of our own that is always open.
 */
#ifndef MOIETY_SHIM_GATE_GATE_H
#define MOIETY_SHIM_GATE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct gate {
    const volatile uint32_t *word; /* in the lease page */
    bool fenced;                   /* no membarrier: enter with a full fence */
};

extern struct gate gate;
extern __thread struct mw_slot *gate_slot __attribute__((tls_model("initial-exec")));

/* Uses `shared` for the threads' counts; NULL: counts that no process reads. */
void gate_init(struct mw_counters *shared);
/* There is no agent and there will be none: from now on a thread's counts are its own. */
void gate_leave_alone(void);
bool gate_is_alone(void);
/* Takes the page as the lease from now on; an earlier one is replaced at the same address. */
int gate_map_lease(int memfd);
/* Gives this thread a slot of its own; NULL when there are no more. */
struct mw_slot *gate_register(void);
/* The slow halves of gate_enter and gate_leave. */
struct mw_slot *gate_enter_slow(void);
void gate_wait(struct mw_slot *slot);
void gate_overflow_leave(struct mw_slot *slot);

bool gate_is_open(void);
/* Control thread: returns when no thread is inside and none can enter, given that the agent
 * closed the word. False when the word was opened again meanwhile. */
bool gate_await_empty(void);
/* Control thread: lets waiting threads look at the word again. */
void gate_wake(void);
/* Control thread: lets one thread that waits pass the closed gate, for one call; whether one did. */
bool gate_let_through(void);
/* Requests a lease, unless that was done already. */
void gate_want(void);
/* Forgets that a lease was requested, so that the next thread requests it again. If threads stand
 * at the closed gate, requests it for them at once. */
void gate_forget_want(void);
/* Whether a thread stands at the closed gate. */
bool gate_is_wanted(void);
/* Gated calls so far, all threads; *inside is the number of threads in the driver or blocked. */
uint64_t gate_passes(uint32_t *inside);
/* Counts the stream captures that are open. */
void gate_capture_began(void);
void gate_capture_ended(void);
bool gate_in_capture(void);
/* In a forked child: stop sharing anything with the parent. */
void gate_after_fork(void);

static inline struct mw_slot *gate_enter(void)
{
    struct mw_slot *slot = gate_slot;
    if (__builtin_expect(!slot, 0)) {
        return gate_enter_slow();
    }
    uint32_t depth = slot->depth;
    __atomic_store_n(&slot->depth, depth + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->passes, slot->passes + 1, __ATOMIC_RELAXED);
    if (__builtin_expect(gate.fenced, 0)) {
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
    if (__builtin_expect(!(__atomic_load_n(gate.word, __ATOMIC_ACQUIRE) & MW_LEASE_OPEN), 0) &&
        depth == 0) {
        gate_wait(slot);
    }
    return slot;
}

static inline void gate_leave(struct mw_slot *slot)
{
    if (__builtin_expect(slot != gate_slot, 0)) {
        gate_overflow_leave(slot);
        return;
    }
    __atomic_store_n(&slot->depth, slot->depth - 1, __ATOMIC_RELEASE);
}

/* Around a call that only waits for the GPU: it needs no lease, but its caller is not idle. */
static inline struct mw_slot *gate_block(void)
{
    struct mw_slot *slot = gate_slot ? gate_slot : gate_register();
    if (slot) {
        __atomic_store_n(&slot->blocked, slot->blocked + 1, __ATOMIC_RELAXED);
    }
    return slot;
}

/* Around a query that found that all work is done: its caller uses the GPU no more than before. */
static inline void gate_unblock_idle(struct mw_slot *slot)
{
    if (slot) {
        __atomic_store_n(&slot->blocked, slot->blocked - 1, __ATOMIC_RELEASE);
    }
}

static inline void gate_unblock(struct mw_slot *slot)
{
    if (slot) {
        __atomic_store_n(&slot->passes, slot->passes + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->blocked, slot->blocked - 1, __ATOMIC_RELEASE);
    }
}

#endif
