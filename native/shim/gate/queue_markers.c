#include "shim/gate/queue_markers.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"

static struct queue_markers *all;
static struct lock lock =
    LOCK_INIT(LOCK_QUEUE_MARKERS); /* of `all`, and of each element's stream, context and is_free */
static __thread struct queue_markers *mine __attribute__((tls_model("initial-exec")));
static bool key_made;
static unsigned key;

static void give_back(void *value)
{
    LOCK_SCOPE(&lock);
    for (struct queue_markers *markers = value; markers; markers = markers->next) {
        markers->is_free = true;
    }
    mine = NULL;
}

/* NULL and the two special handles stand for streams of the current context. */
static bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static bool find_context(CUstream stream, CUcontext *context)
{
    *context = NULL;
    if (is_default(stream)) {
        return DRIVER(cuCtxGetCurrent)(context) == CUDA_SUCCESS;
    }
    return DRIVER(cuStreamGetCtx)(stream, context) == CUDA_SUCCESS;
}

/* Empties the markers, but keeps the events while their context exists. */
static void clear(struct queue_markers *markers, CUstream stream, CUcontext context)
{
    struct queue_markers empty = {.next = markers->next, .next_of_all = markers->next_of_all};
    bool kept =
        markers->context == context && !(atomic_load(&markers->lost) & MARKERS_LOST_CONTEXT);
    for (int i = 0; kept && i < QUEUE_MARKERS_MAX; i++) {
        empty.marks[i] =
            (struct mark){.event = markers->marks[i].event, .made = markers->marks[i].made};
    }
    empty.stream = stream;
    empty.context = context;
    empty.batch = 1;
    *markers = empty;
}

/* With the lock held: unused markers, best of this context, because their events can be used
 * again. */
static struct queue_markers *find_free(CUcontext context)
{
    struct queue_markers *found = NULL;
    for (struct queue_markers *markers = all; markers; markers = markers->next_of_all) {
        if (!markers->is_free) {
            continue;
        }
        if (markers->context == context) {
            return markers;
        }
        if (atomic_load(&markers->lost) & MARKERS_LOST_CONTEXT) {
            found = markers;
        }
    }
    return found;
}

/* Markers of this thread whose stream is gone. */
static struct queue_markers *find_lost(CUcontext context)
{
    for (struct queue_markers *markers = mine; markers; markers = markers->next) {
        uint32_t lost = atomic_load(&markers->lost);
        if (lost & MARKERS_LOST_CONTEXT || (lost && markers->context == context)) {
            return markers;
        }
    }
    return NULL;
}

static struct queue_markers *make(CUcontext context)
{
    if (!key_made) {
        if (!driver_threads.key_create || driver_threads.key_create(&key, give_back) != 0) {
            return NULL;
        }
        key_made = true;
    }
    struct queue_markers *markers = find_free(context);
    if (!markers) {
        markers = calloc(1, sizeof(*markers));
        if (!markers) {
            return NULL;
        }
        markers->next_of_all = all;
        all = markers;
    }
    markers->next = mine;
    mine = markers;
    driver_threads.set_specific(key, mine);
    return markers;
}

struct queue_markers *queue_markers_of(CUstream stream)
{
    CUcontext context;
    if (!find_context(stream, &context)) {
        return NULL;
    }
    for (struct queue_markers *markers = mine; markers; markers = markers->next) {
        if (markers->stream == stream && markers->context == context &&
            !atomic_load(&markers->lost)) {
            return markers;
        }
    }
    LOCK_SCOPE(&lock);
    struct queue_markers *markers = find_lost(context);
    if (!markers) {
        markers = make(context);
    }
    if (markers) {
        clear(markers, stream, context);
    }
    return markers;
}

bool queue_markers_are_good(const struct queue_markers *markers, CUstream stream)
{
    CUcontext context = NULL;
    if (markers->stream != stream || atomic_load(&markers->lost)) {
        return false;
    }
    if (!is_default(stream)) {
        return true;
    }
    return DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context == markers->context;
}

bool queue_markers_make_event(const struct queue_markers *markers, struct mark *mark)
{
    CUcontext current = NULL;
    DRIVER(cuCtxGetCurrent)(&current);
    bool elsewhere = current != markers->context;
    if (elsewhere && DRIVER(cuCtxPushCurrent_v2)(markers->context) != CUDA_SUCCESS) {
        return false;
    }
    mark->made = DRIVER(cuEventCreate)(&mark->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    if (elsewhere) {
        DRIVER(cuCtxPopCurrent_v2)(&current);
    }
    return mark->made;
}

void queue_markers_forget_stream(CUstream stream)
{
    LOCK_SCOPE(&lock);
    for (struct queue_markers *markers = all; markers && !is_default(stream);
         markers = markers->next_of_all) {
        if (markers->stream == stream) {
            atomic_fetch_or(&markers->lost, MARKERS_LOST_STREAM);
        }
    }
}

void queue_markers_forget_context(CUcontext context)
{
    LOCK_SCOPE(&lock);
    for (struct queue_markers *markers = all; markers; markers = markers->next_of_all) {
        if (markers->context == context) {
            atomic_fetch_or(&markers->lost, MARKERS_LOST_STREAM | MARKERS_LOST_CONTEXT);
        }
    }
}

void queue_markers_after_fork(void)
{
    all = NULL;
    mine = NULL;
    key_made = false;
    lock_after_fork(&lock);
}
