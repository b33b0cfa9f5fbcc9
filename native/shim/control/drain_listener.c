#include "shim/control/drain_listener.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/descriptors.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"

/* A wait that is shorter needs no listener. To set a timer takes microseconds, on a virtual machine most of all, and a
 * program waits for a drain: so the timer is left as it is when a wait is over, and set by the first after it has come. */
#define AFTER_NS 2000000ull
/* How long the listener listens before it checks whether it is still needed. */
#define LISTEN_MS 20
#define PAUSE_NS 5000000L

static struct lock hearing = LOCK_INIT(LOCK_HEARING);
static _Atomic bool waiting;      /* the control thread waits; false again before it receives */
static _Atomic uint64_t since_ns; /* since when it waits */
static _Atomic bool timed;        /* the timer will come */
static drain_listener_hear *hear;
static drain_listener_lost *lost;
static int timer = -1;
static bool started;

/* True if the listener may receive messages of this type. They are not about memory that moves. */
static bool may_hear(int type)
{
    return type == MW_GRANT || type == MW_REVOKE || type == MW_SET_IDLE_TIMEOUT ||
           type == MW_LIMIT || type == MW_SET_QUEUE_DEPTH || type == MW_ATTACHED ||
           type == MW_ALLOC_REPLY || type == MW_PIN_REPLY || type == MW_REFUSED ||
           type == MW_EXPORT || type == MW_IMPORT;
}

/* Handles the next message of a type that may_hear allows. False: pause before the next try. */
static bool hear_one(void)
{
    union agent_message message = {0};
    LOCK_SCOPE(&hearing);
    if (!atomic_load(&waiting)) {
        return true;
    }
    int got = agent_sift(may_hear, &message);
    if (got > 0) {
        hear(&message);
    } else if (got < 0) {
        lost();
    }
    return got != 0; /* 0: what there is, is for the control thread */
}

static void ring_in(uint64_t after_ns)
{
    struct itimerspec when = {.it_value = {0, (long)after_ns}};
    atomic_store(&timed, true);
    if (timer >= 0) {
        timerfd_settime(timer, 0, &when, NULL);
    }
}

/* Whether the control thread has waited for long enough. The timer may have been set for an earlier wait: then
 * it is set anew. */
static bool is_due(void)
{
    atomic_store(&timed, false);
    if (!atomic_load(&waiting)) {
        return false; /* the next wait sets it */
    }
    uint64_t due_ns = atomic_load(&since_ns) + AFTER_NS;
    uint64_t now = now_ns();
    if (now < due_ns) {
        ring_in(due_ns - now);
    }
    return now >= due_ns;
}

static void *drain_listener_main(void *unused)
{
    struct timespec pause = {0, PAUSE_NS};
    uint64_t times;
    prctl(PR_SET_NAME, "moiety-drain");
    while (read(timer, &times, sizeof(times)) == (ssize_t)sizeof(times)) {
        bool due = is_due();
        while (due && atomic_load(&waiting)) {
            struct pollfd ready = {.fd = agent_fd(), .events = POLLIN};
            int n = poll(&ready, 1, LISTEN_MS);
            if (!hear_one() && n > 0) {
                nanosleep(&pause, NULL);
            }
        }
    }
    return unused;
}

/* Called at the first wait: a program whose lease is never revoked needs neither thread nor
 * timer. */
static void start(void)
{
    sigset_t all;
    sigset_t before;
    unsigned long thread;
    started = true;
    timer = descriptors_move(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    if (timer < 0) {
        return; /* without a listener only a drain of work that waits for its own threads suffers */
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* of this thread: the program keeps its signals */
    if (driver_threads.create(&thread, NULL, drain_listener_main, NULL) != 0) {
        close(timer);
        timer = -1;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void drain_listener_begin(drain_listener_hear *with, drain_listener_lost *without)
{
    if (!started) {
        start();
    }
    hear = with;
    lost = without;
    atomic_store(&since_ns, now_ns());
    atomic_store(&waiting, true);
    if (!atomic_load(&timed)) {
        ring_in(AFTER_NS);
    }
}

void drain_listener_end(void)
{
    atomic_store(&waiting, false);
    lock_take(&hearing); /* until the listener is done with its message */
    lock_drop(&hearing);
}

void drain_listener_after_fork(void)
{
    if (timer >= 0) {
        close(timer);
    }
    timer = -1;
    started = false;
    atomic_store(&timed, false);
    atomic_store(&waiting, false);
    lock_after_fork(&hearing);
}
