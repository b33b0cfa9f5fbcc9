#include "shim/ipc/pin_again.h"

#include <signal.h>
#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/extent.h"

struct question {
    struct question *next;
    struct mw_share asked;
    void (*answer)(const struct mw_share *asked);
};
static struct question *questions; /* the youngest first; under extent_lock */
static _Atomic uint32_t asked_count;
static bool started; /* under extent_lock */

static struct question *take(void)
{
    LOCK_SCOPE(&extent_lock);
    struct question **at = &questions;
    while (*at && (*at)->next) {
        at = &(*at)->next;
    }
    struct question *oldest = *at;
    *at = NULL;
    return oldest;
}

static void *answer_all(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    for (;;) {
        uint32_t seen = atomic_load(&asked_count);
        struct question *question = take();
        if (question) {
            question->answer(&question->asked);
            free(question);
        } else {
            futex_wait(&asked_count, seen, -1);
        }
    }
    return unused;
}

static bool start(void)
{
    sigset_t all;
    sigset_t before;
    unsigned long thread;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* of this thread: the program keeps its signals */
    started = driver_threads.create(&thread, NULL, answer_all, NULL) == 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool ipc_pin_again(const struct mw_share *asked, void (*answer)(const struct mw_share *asked))
{
    struct question *made = malloc(sizeof(*made));
    if (!made || (!started && !start())) {
        free(made);
        return false;
    }
    *made = (struct question){questions, *asked, answer};
    questions = made;
    atomic_fetch_add(&asked_count, 1);
    futex_wake_all(&asked_count);
    return true;
}

void ipc_pin_again_after_fork(void)
{
    questions = NULL;
    started = false;
}
