#include "shim/lane.h"

#include <stdlib.h>
#include <string.h>

#include "shim/lock.h"
#include "shim/real.h"

static struct lane *all;
static struct lock lock; /* of `all`, and of each lane's stream, context and is_free */
static __thread struct lane *mine __attribute__((tls_model("initial-exec")));
static bool key_made;
static unsigned key;

static void give_back(void *value)
{
    LOCK_SCOPE(&lock);
    for (struct lane *lane = value; lane; lane = lane->next) {
        lane->is_free = true;
    }
    mine = NULL;
}

/* NULL stands for the current context's, and so do the other two. */
static bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static bool find_context(CUstream stream, CUcontext *context)
{
    *context = NULL;
    if (is_default(stream)) {
        return REAL(cuCtxGetCurrent)(context) == CUDA_SUCCESS;
    }
    return REAL(cuStreamGetCtx)(stream, context) == CUDA_SUCCESS;
}

/* Empty again, but for the events as long as their context is there. */
static void clear(struct lane *lane, CUstream stream, CUcontext context)
{
    struct lane empty = {.next = lane->next, .next_of_all = lane->next_of_all};
    bool kept = lane->context == context && !(atomic_load(&lane->lost) & LANE_LOST_CONTEXT);
    for (int i = 0; kept && i < LANE_MARKS; i++) {
        empty.marks[i] = (struct mark){.event = lane->marks[i].event, .made = lane->marks[i].made};
    }
    empty.stream = stream;
    empty.context = context;
    empty.batch = 1;
    *lane = empty;
}

/* With the lock held: one that nobody uses, best one of this context, whose events serve again. */
static struct lane *find_free(CUcontext context)
{
    struct lane *found = NULL;
    for (struct lane *lane = all; lane; lane = lane->next_of_all) {
        if (!lane->is_free) {
            continue;
        }
        if (lane->context == context) {
            return lane;
        }
        if (atomic_load(&lane->lost) & LANE_LOST_CONTEXT) {
            found = lane;
        }
    }
    return found;
}

/* One of this thread's own whose stream is gone. */
static struct lane *find_lost(CUcontext context)
{
    for (struct lane *lane = mine; lane; lane = lane->next) {
        uint32_t lost = atomic_load(&lane->lost);
        if (lost & LANE_LOST_CONTEXT || (lost && lane->context == context)) {
            return lane;
        }
    }
    return NULL;
}

static struct lane *make(CUcontext context)
{
    if (!key_made) {
        if (!real_threads.key_create || real_threads.key_create(&key, give_back) != 0) {
            return NULL;
        }
        key_made = true;
    }
    struct lane *lane = find_free(context);
    if (!lane) {
        lane = calloc(1, sizeof(*lane));
        if (!lane) {
            return NULL;
        }
        lane->next_of_all = all;
        all = lane;
    }
    lane->next = mine;
    mine = lane;
    real_threads.set_specific(key, mine);
    return lane;
}

struct lane *lane_of(CUstream stream)
{
    CUcontext context;
    if (!find_context(stream, &context)) {
        return NULL;
    }
    for (struct lane *lane = mine; lane; lane = lane->next) {
        if (lane->stream == stream && lane->context == context && !atomic_load(&lane->lost)) {
            return lane;
        }
    }
    LOCK_SCOPE(&lock);
    struct lane *lane = find_lost(context);
    if (!lane) {
        lane = make(context);
    }
    if (lane) {
        clear(lane, stream, context);
    }
    return lane;
}

bool lane_is_good(const struct lane *lane, CUstream stream)
{
    CUcontext context = NULL;
    if (lane->stream != stream || atomic_load(&lane->lost)) {
        return false;
    }
    if (!is_default(stream)) {
        return true;
    }
    return REAL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context == lane->context;
}

bool lane_make_event(const struct lane *lane, struct mark *mark)
{
    CUcontext current = NULL;
    REAL(cuCtxGetCurrent)(&current);
    bool elsewhere = current != lane->context;
    if (elsewhere && REAL(cuCtxPushCurrent_v2)(lane->context) != CUDA_SUCCESS) {
        return false;
    }
    mark->made = REAL(cuEventCreate)(&mark->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    if (elsewhere) {
        REAL(cuCtxPopCurrent_v2)(&current);
    }
    return mark->made;
}

void lane_forget_stream(CUstream stream)
{
    LOCK_SCOPE(&lock);
    for (struct lane *lane = all; lane && !is_default(stream); lane = lane->next_of_all) {
        if (lane->stream == stream) {
            atomic_fetch_or(&lane->lost, LANE_LOST_STREAM);
        }
    }
}

void lane_forget_context(CUcontext context)
{
    LOCK_SCOPE(&lock);
    for (struct lane *lane = all; lane; lane = lane->next_of_all) {
        if (lane->context == context) {
            atomic_fetch_or(&lane->lost, LANE_LOST_STREAM | LANE_LOST_CONTEXT);
        }
    }
}

void lane_after_fork(void)
{
    all = NULL;
    mine = NULL;
    key_made = false;
    atomic_store(&lock.word, 0);
}
