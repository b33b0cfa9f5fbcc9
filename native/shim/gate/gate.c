#include "shim/gate/gate.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"

static const uint32_t always_open = MW_LEASE_OPEN;
/* Written by threads that never reached a gate with an agent behind it, and by forked children. */
static struct mw_counters unread;

struct gate gate = {.word = &always_open};
__thread struct mw_slot *gate_slot __attribute__((tls_model("initial-exec")));

static struct mw_counters *counters = &unread;
static _Atomic uint32_t slots_used;
static struct lock slots_lock = LOCK_INIT(LOCK_SLOTS);
static _Atomic uint32_t sequence;
static bool waits_on_word; /* the agent wakes threads there itself; else the control thread does */
static _Atomic uint32_t wanted;
static _Atomic uint32_t let_through; /* this many threads may pass the closed gate */
static _Atomic uint32_t captures;    /* open stream captures */
static _Atomic bool alone;
static int key_made;
static unsigned key;

/* How long a thread at the gate has to notice that it may pass, and how often it is woken for
 * that. */
#define PASS_NS 20000000ull
#define PASS_STEP_NS 50000L

/* The last slot is shared by all threads beyond the number of slots; it is counted atomically. */
#define OVERFLOW_SLOT (MW_SLOTS_MAX - 1)

static void give_back_slot(void *value)
{
    struct mw_slot *slot = value;
    if (slot != gate_slot) {
        return; /* its parent's: this is a forked child */
    }
    gate_slot = NULL;
    __atomic_store_n(&slot->blocked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->depth, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
}

void gate_init(struct mw_counters *shared)
{
    LOCK_SCOPE(&slots_lock);
    counters = shared ? shared : &unread;
    if (!key_made && driver_threads.key_create) {
        key_made = driver_threads.key_create(&key, give_back_slot) == 0;
    }
    gate.fenced = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) != 0;
}

void gate_leave_alone(void) { atomic_store(&alone, true); }

bool gate_is_alone(void) { return atomic_load(&alone); }

int gate_map_lease(int memfd)
{
    void *old = gate.word == &always_open ? NULL : (void *)(uintptr_t)gate.word;
    /* Waiting threads sleep on the old page, even when the new one lies at its address: they are
     * woken through an alias of the old page. */
    void *alias = old ? mremap(old, 0, MW_LEASE_BYTES, MREMAP_MAYMOVE) : MAP_FAILED;
    void *page = mmap(old, MW_LEASE_BYTES, PROT_READ, MAP_SHARED | (old ? MAP_FIXED : 0), memfd, 0);
    int error = page == MAP_FAILED ? -errno : 0;
    if (!error) {
        madvise(page, MW_LEASE_BYTES, MADV_DONTFORK);
        gate.word = page;
        waits_on_word = futex_wait_shared(gate.word, ~*gate.word, 0) == -EAGAIN;
    }
    if (alias != MAP_FAILED) {
        futex_wake_shared(alias);
        munmap(alias, MW_LEASE_BYTES);
    }
    return error;
}

struct mw_slot *gate_register(void)
{
    static __thread struct mw_slot own __attribute__((tls_model("initial-exec")));
    struct mw_slot *slot = NULL;
    if (atomic_load(&alone)) {
        gate_slot = &own; /* no process reads the counts: no lock and no shared memory */
        return &own;
    }
    LOCK_SCOPE(&slots_lock);
    uint32_t used = atomic_load(&slots_used);
    for (uint32_t i = 0; i < OVERFLOW_SLOT && key_made; i++) {
        if (__atomic_load_n(&counters->slots[i].tid, __ATOMIC_ACQUIRE) == 0) {
            slot = &counters->slots[i];
            __atomic_store_n(&slot->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
            if (i >= used) {
                atomic_store(&slots_used, i + 1);
            }
            break;
        }
    }
    if (slot) {
        gate_slot = slot;
        driver_threads.set_specific(key, slot);
    }
    return slot;
}

/* Sleeps until the word changes or gate_wake is called. A thread that is about to sleep may miss
 * gate_wake, so no sleep is longer than a second. */
static void sleep_at(uint32_t word, uint32_t seen)
{
    if (waits_on_word) {
        futex_wait_shared(gate.word, word, 1000);
    } else {
        futex_wait(&sequence, seen, 1000);
    }
}

/* The caller has stored its count before, so gate_await_empty waits for the caller too. */
static bool may_pass(void)
{
    uint32_t left = atomic_load(&let_through);
    while (left && !atomic_compare_exchange_weak(&let_through, &left, left - 1)) {
    }
    return left != 0;
}

struct mw_slot *gate_enter_slow(void)
{
    struct mw_slot *slot = gate_register();
    if (slot) {
        return gate_enter();
    }
    slot = &counters->slots[OVERFLOW_SLOT];
    __atomic_store_n(&slot->tid, UINT32_MAX, __ATOMIC_RELAXED);
    for (;;) {
        __atomic_fetch_add(&slot->depth, 1, __ATOMIC_SEQ_CST);
        if (gate_is_open() || may_pass()) {
            __atomic_fetch_add(&slot->passes, 1, __ATOMIC_RELAXED);
            return slot;
        }
        __atomic_fetch_sub(&slot->depth, 1, __ATOMIC_SEQ_CST);
        uint32_t seen = atomic_load(&sequence);
        gate_want();
        uint32_t word = __atomic_load_n(gate.word, __ATOMIC_SEQ_CST);
        if (!(word & MW_LEASE_OPEN)) {
            sleep_at(word, seen);
        }
    }
}

void gate_overflow_leave(struct mw_slot *slot)
{
    __atomic_fetch_sub(&slot->depth, 1, __ATOMIC_SEQ_CST);
}

bool gate_is_open(void)
{
    return (__atomic_load_n(gate.word, __ATOMIC_SEQ_CST) & MW_LEASE_OPEN) != 0;
}

void gate_wait(struct mw_slot *slot)
{
    uint64_t began = now_ns();
    int kept = errno;
    for (;;) {
        __atomic_store_n(&slot->depth, 0, __ATOMIC_SEQ_CST);
        uint32_t seen = atomic_load(&sequence);
        if (!gate_is_open()) {
            gate_want();
            uint32_t word = __atomic_load_n(gate.word, __ATOMIC_SEQ_CST);
            if (!(word & MW_LEASE_OPEN)) {
                sleep_at(word, seen);
            }
        }
        __atomic_store_n(&slot->depth, 1, __ATOMIC_SEQ_CST);
        atomic_thread_fence(memory_order_seq_cst);
        if (gate_is_open() || may_pass()) {
            break;
        }
    }
    __atomic_fetch_add(&counters->waited_ns, now_ns() - began, __ATOMIC_RELAXED);
    errno = kept;
}

static bool is_inside(void)
{
    uint32_t used = atomic_load(&slots_used);
    for (uint32_t i = 0; i < used; i++) {
        if (__atomic_load_n(&counters->slots[i].depth, __ATOMIC_ACQUIRE)) {
            return true;
        }
    }
    return __atomic_load_n(&counters->slots[OVERFLOW_SLOT].depth, __ATOMIC_ACQUIRE) != 0;
}

/* Makes visible the stores that other threads made before they read the word last. */
static void fence_all(void)
{
    if (!gate.fenced && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) != 0) {
        /* Forbidden since gate_init (a sandbox). No store stays in its buffer for that long. */
        struct timespec pause = {0, 10000000};
        gate.fenced = true;
        nanosleep(&pause, NULL);
    }
    atomic_thread_fence(memory_order_seq_cst);
}

bool gate_await_empty(void)
{
    fence_all();
    for (unsigned round = 0; is_inside(); round++) {
        if (round < 64) {
            sched_yield();
            continue;
        }
        struct timespec pause = {0, round < 256 ? 20000 : 200000};
        nanosleep(&pause, NULL);
        if (gate_is_open()) {
            return false;
        }
    }
    return true;
}

void gate_wake(void)
{
    atomic_fetch_add(&sequence, 1);
    futex_wake_all(&sequence);
    if (waits_on_word) {
        futex_wake_shared(gate.word);
    }
}

bool gate_let_through(void)
{
    uint64_t began = now_ns();
    atomic_store(&wanted, 0); /* threads that come to the gate, or stay there, ask again */
    atomic_store(&let_through, 1);
    do {
        struct timespec pause = {0, PASS_STEP_NS};
        gate_wake();
        nanosleep(&pause, NULL);
    } while (atomic_load(&let_through) && !gate_is_open() && now_ns() - began < PASS_NS);
    return atomic_exchange(&let_through, 0) == 0;
}

void gate_want(void)
{
    if (atomic_exchange(&wanted, 1) == 0) {
        agent_note(MW_LEASE_REQUEST, 0);
    }
}

void gate_forget_want(void)
{
    bool stood = atomic_exchange(&wanted, 0);
    if (stood && !gate_is_open()) {
        gate_want(); /* a thread may have come back meanwhile and take the request for sent */
    }
}

bool gate_is_wanted(void) { return atomic_load(&wanted) != 0; }

uint64_t gate_passes(uint32_t *inside)
{
    uint64_t sum = 0;
    uint32_t busy = 0;
    uint32_t used = atomic_load(&slots_used);
    for (uint32_t i = 0; i <= used; i++) {
        const struct mw_slot *slot = &counters->slots[i < used ? i : OVERFLOW_SLOT];
        sum += __atomic_load_n(&slot->passes, __ATOMIC_RELAXED);
        busy += __atomic_load_n(&slot->depth, __ATOMIC_RELAXED) +
                __atomic_load_n(&slot->blocked, __ATOMIC_RELAXED);
    }
    *inside = busy;
    return sum;
}

void gate_capture_began(void) { atomic_fetch_add(&captures, 1); }

void gate_capture_ended(void)
{
    uint32_t open = atomic_load(&captures);
    while (open && !atomic_compare_exchange_weak(&captures, &open, open - 1)) {
    }
}

bool gate_in_capture(void) { return atomic_load(&captures) != 0; }

void gate_after_fork(void)
{
    counters = &unread;
    gate.word = &always_open;
    gate_slot = NULL;
    atomic_store(&slots_used, 0);
    atomic_store(&captures, 0);
    atomic_store(&let_through, 0);
    lock_after_fork(&slots_lock);
    atomic_store(&alone, true);
    key_made = 0;
}
