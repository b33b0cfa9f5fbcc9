#include "shim/swap/host_segments.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/swap/clean.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_segment.h"

/* The pause between two pieces, so that a thread that waits for contexts_lock gets it; while
 * another thread has it; and while there is no context. */
#define PAUSE_NS 100000L
#define BUSY_NS 1000000L
#define NO_CONTEXT_NS 20000000L

static struct lock lock =
    LOCK_INIT(LOCK_HOST_SEGMENTS); /* taken before the arena's and the socket's, after all others */
static struct segment *segments;
static struct segment *unmapping; /* empty, and being unmapped by the thread below */
static uint64_t wanted_back;
static bool back_asked;
static _Atomic uint32_t work;
static bool started;

void host_segments_new_agent(void)
{
    LOCK_SCOPE(&lock);
    back_asked = false; /* by an agent that is gone */
}

static void tell(enum mw_type type, uint64_t number, uint64_t bytes)
{
    struct mw_arena note = {.segment = number, .bytes = bytes};
    agent_send(&note, sizeof(note), type);
}

/* The first segment that is not registered as a whole. It stays in the list until it is. */
static struct segment *unfinished(void)
{
    LOCK_SCOPE(&lock);
    struct segment *segment = segments;
    while (segment && segment_is_ready(segment)) {
        segment = segment->next;
    }
    return segment;
}

bool host_segments_register_one(void)
{
    struct segment *segment = unfinished();
    if (!segment) {
        return false;
    }
    uint64_t bytes = segment_register(segment);
    bool added = host_arena_add(segment->base + segment->registered, bytes, segment->number) == 0;
    LOCK_SCOPE(&lock);
    segment->registered += bytes;
    return added;
}

/* The agent wants memory back, and no segment is empty: gives the spare copies in the last one back that has only
 * such. */
static void empty_one(void)
{
    const unsigned char *base = NULL;
    uint64_t bytes = 0;
    lock_take(&lock);
    for (const struct segment *s = segments; back_asked && s; s = s->next) {
        if (!segment_is_ready(s) || s->bytes > wanted_back) {
            continue;
        }
        if (!host_arena_uses(s->number)) {
            base = NULL;
            break;
        }
        if (host_arena_is_all_spare(s->number)) {
            base = s->base;
            bytes = s->bytes;
        }
    }
    lock_drop(&lock);
    if (base) {
        clean_drop_within(base, bytes);
    }
}

/* Takes the last segment of which nothing is in use out of the list and the arena. */
static void begin_unmap(void)
{
    LOCK_SCOPE(&lock);
    struct segment **found = NULL;
    for (struct segment **at = &segments; back_asked && *at; at = &(*at)->next) {
        if (segment_is_ready(*at) && (*at)->bytes <= wanted_back &&
            !host_arena_uses((*at)->number)) {
            found = at;
        }
    }
    if (found && host_arena_remove((*found)->number)) {
        unmapping = *found;
        *found = unmapping->next;
        wanted_back -= unmapping->bytes;
    } else if (back_asked) {
        back_asked = false;
        tell(MW_ARENA_BACK, 0, 0);
    }
}

static void end_unmap(void)
{
    if (unmapping && unmapping->registered == 0) {
        uint64_t number = unmapping->number;
        uint64_t bytes = unmapping->bytes;
        segment_unmap(unmapping);
        tell(MW_ARENA_BACK, number, bytes);
        unmapping = NULL;
    }
}

static bool has_work(void)
{
    LOCK_SCOPE(&lock);
    bool found = back_asked || unmapping;
    for (const struct segment *s = segments; s && !found; s = s->next) {
        found = !segment_is_ready(s);
    }
    return found;
}

/* Registers or unregisters a piece. Returns how long to leave the contexts to other threads. */
static long work_a_little(void)
{
    if (!lock_try(&contexts_lock)) {
        return BUSY_NS; /* waiting for it would hold up the copies of the control thread */
    }
    struct device *device = device_next(NULL);
    bool pushed = device && device_push(device);
    if (unmapping) {
        segment_unregister(unmapping);
    } else if (!pushed || !host_segments_register_one()) {
        empty_one();
        begin_unmap();
    }
    if (pushed) {
        device_pop();
    }
    lock_drop(&contexts_lock);
    return pushed || unmapping ? PAUSE_NS : NO_CONTEXT_NS;
}

static void *segments_main(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    prctl(PR_SET_NAME, "moiety-arena");
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    for (;;) {
        uint32_t seen = atomic_load(&work);
        if (!has_work()) {
            futex_wait(&work, seen, -1);
            continue;
        }
        struct segment *segment = unfinished();
        if (segment) {
            segment_prepare(segment);
        }
        struct timespec pause = {0, work_a_little()};
        end_unmap();
        nanosleep(&pause, NULL);
    }
    return unused;
}

static bool start_thread(void)
{
    sigset_t all;
    sigset_t before;
    unsigned long thread;
    if (!started) {
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before); /* of this thread: the program keeps its signals */
        started = driver_threads.create(&thread, NULL, segments_main, NULL) == 0;
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return started;
}

static void wake(void)
{
    atomic_fetch_add(&work, 1);
    futex_wake_all(&work);
}

bool host_segments_offer(const struct mw_arena *note, int fd)
{
    struct segment *made = NULL;
    if (fd >= 0) {
        made = note->segment && note->bytes && start_thread() ? segment_map(note, fd) : NULL;
        close(fd);
    }
    if (!made) {
        if (note->segment) {
            tell(MW_ARENA_BACK, note->segment, note->bytes);
        }
        return false;
    }
    lock_take(&lock);
    struct segment **end = &segments;
    while (*end) {
        end = &(*end)->next;
    }
    *end = made;
    lock_drop(&lock);
    wake();
    return true;
}

void host_segments_back(uint64_t bytes)
{
    if (!started) {
        tell(MW_ARENA_BACK, 0, 0);
        return;
    }
    lock_take(&lock);
    wanted_back = bytes;
    back_asked = true;
    lock_drop(&lock);
    wake();
}

void host_segments_tell(void)
{
    LOCK_SCOPE(&lock);
    for (const struct segment *s = segments; s; s = s->next) {
        tell(MW_ARENA, s->number, s->bytes);
    }
}

void host_segments_after_fork(void)
{
    segments = unmapping = NULL; /* MADV_DONTFORK */
    started = false;
    back_asked = false;
    atomic_store(&work, 0);
    lock_after_fork(&lock);
}
