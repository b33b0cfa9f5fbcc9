#include "shim/track.h"

#include <stdlib.h>
#include <string.h>

#include "shim/lock.h"
#include "shim/real.h"

static struct track *all;
static struct lock lock; /* of `all`, and of each track's stream, context and is_free */
static __thread struct track *mine __attribute__((tls_model("initial-exec")));
static bool key_made;
static unsigned key;

static void give_back(void *value)
{
    LOCK_SCOPE(&lock);
    for (struct track *track = value; track; track = track->next) {
        track->is_free = true;
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
static void clear(struct track *track, CUstream stream, CUcontext context)
{
    struct track empty = {.next = track->next, .next_of_all = track->next_of_all};
    bool kept = track->context == context && !(atomic_load(&track->lost) & TRACK_LOST_CONTEXT);
    for (int i = 0; kept && i < TRACK_MARKS; i++) {
        empty.marks[i] =
            (struct mark){.event = track->marks[i].event, .made = track->marks[i].made};
    }
    empty.stream = stream;
    empty.context = context;
    empty.batch = 1;
    *track = empty;
}

/* With the lock held: one that nobody uses, best one of this context, whose events serve again. */
static struct track *find_free(CUcontext context)
{
    struct track *found = NULL;
    for (struct track *track = all; track; track = track->next_of_all) {
        if (!track->is_free) {
            continue;
        }
        if (track->context == context) {
            return track;
        }
        if (atomic_load(&track->lost) & TRACK_LOST_CONTEXT) {
            found = track;
        }
    }
    return found;
}

/* One of this thread's own whose stream is gone. */
static struct track *find_lost(CUcontext context)
{
    for (struct track *track = mine; track; track = track->next) {
        uint32_t lost = atomic_load(&track->lost);
        if (lost & TRACK_LOST_CONTEXT || (lost && track->context == context)) {
            return track;
        }
    }
    return NULL;
}

static struct track *make(CUcontext context)
{
    if (!key_made) {
        if (!real_threads.key_create || real_threads.key_create(&key, give_back) != 0) {
            return NULL;
        }
        key_made = true;
    }
    struct track *track = find_free(context);
    if (!track) {
        track = calloc(1, sizeof(*track));
        if (!track) {
            return NULL;
        }
        track->next_of_all = all;
        all = track;
    }
    track->next = mine;
    mine = track;
    real_threads.set_specific(key, mine);
    return track;
}

struct track *track_of(CUstream stream)
{
    CUcontext context;
    if (!find_context(stream, &context)) {
        return NULL;
    }
    for (struct track *track = mine; track; track = track->next) {
        if (track->stream == stream && track->context == context && !atomic_load(&track->lost)) {
            return track;
        }
    }
    LOCK_SCOPE(&lock);
    struct track *track = find_lost(context);
    if (!track) {
        track = make(context);
    }
    if (track) {
        clear(track, stream, context);
    }
    return track;
}

bool track_is_good(const struct track *track, CUstream stream)
{
    CUcontext context = NULL;
    if (track->stream != stream || atomic_load(&track->lost)) {
        return false;
    }
    if (!is_default(stream)) {
        return true;
    }
    return REAL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context == track->context;
}

bool track_make_event(const struct track *track, struct mark *mark)
{
    CUcontext current = NULL;
    REAL(cuCtxGetCurrent)(&current);
    bool elsewhere = current != track->context;
    if (elsewhere && REAL(cuCtxPushCurrent_v2)(track->context) != CUDA_SUCCESS) {
        return false;
    }
    mark->made = REAL(cuEventCreate)(&mark->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    if (elsewhere) {
        REAL(cuCtxPopCurrent_v2)(&current);
    }
    return mark->made;
}

void track_forget_stream(CUstream stream)
{
    LOCK_SCOPE(&lock);
    for (struct track *track = all; track && !is_default(stream); track = track->next_of_all) {
        if (track->stream == stream) {
            atomic_fetch_or(&track->lost, TRACK_LOST_STREAM);
        }
    }
}

void track_forget_context(CUcontext context)
{
    LOCK_SCOPE(&lock);
    for (struct track *track = all; track; track = track->next_of_all) {
        if (track->context == context) {
            atomic_fetch_or(&track->lost, TRACK_LOST_STREAM | TRACK_LOST_CONTEXT);
        }
    }
}

void track_after_fork(void)
{
    all = NULL;
    mine = NULL;
    key_made = false;
    atomic_store(&lock.word, 0);
}
