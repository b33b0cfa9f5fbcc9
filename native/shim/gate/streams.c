#include "shim/gate/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"

#define NAP_NS 20000L
#define LONGEST_NAP_NS 200000L
/* A thread that was about to wait in the driver waits there after some of these. */
#define ENTERS_NS 200000L
#define ENTERS_TRIES 25

struct known {
    CUstream stream;
    CUcontext context;
};

/* An event behind what was submitted to a stream. */
struct mark {
    CUcontext context;
    CUevent event;
    bool pending;
};

struct lock streams_lock = LOCK_INIT(LOCK_STREAMS);
static struct known *streams;
static size_t stream_count, stream_room;
static struct mark *marks;
static size_t mark_count, mark_room;
static uint32_t synchronising; /* threads that wait for a context in the driver, or are about to */

/* Makes room for one more element; false: no memory. */
static bool grow(void **array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return true;
    }
    size_t wanted = *room ? *room * 2 : 32;
    void *grown = realloc(*array, wanted * bytes);
    if (!grown) {
        return false;
    }
    *array = grown;
    *room = wanted;
    return true;
}

static void nap(long ns)
{
    struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

/* ---- the program's streams ---- */

void streams_add(CUstream stream)
{
    CUcontext context = NULL;
    if (gate_is_alone()) {
        return;
    }
    DRIVER(cuCtxGetCurrent)(&context);
    LOCK_SCOPE(&streams_lock);
    if (grow((void **)&streams, stream_count, &stream_room, sizeof(*streams))) {
        streams[stream_count++] = (struct known){stream, context};
    }
}

void streams_remove(CUstream stream)
{
    for (size_t i = 0; i < stream_count; i++) {
        if (streams[i].stream == stream) {
            streams[i] = streams[--stream_count];
            return;
        }
    }
}

void streams_forget_context(CUcontext context)
{
    LOCK_SCOPE(&streams_lock);
    for (size_t i = stream_count; i-- > 0;) {
        if (streams[i].context == context) {
            streams[i] = streams[--stream_count];
        }
    }
    for (size_t i = mark_count; i-- > 0;) {
        if (marks[i].context == context) {
            marks[i] = marks[--mark_count]; /* its event went with the context */
        }
    }
}

/* ---- marks; all with streams_lock, and in the mode that harms no capture ---- */

static bool is_done(struct mark *mark)
{
    if (mark->pending) {
        mark->pending = DRIVER(cuEventQuery)(mark->event) == CUDA_ERROR_NOT_READY;
    }
    return !mark->pending;
}

/* With the context current. */
static struct mark *unused_mark(CUcontext context)
{
    for (size_t i = 0; i < mark_count; i++) {
        if (marks[i].context == context && is_done(&marks[i])) {
            return &marks[i];
        }
    }
    if (!grow((void **)&marks, mark_count, &mark_room, sizeof(*marks))) {
        return NULL;
    }
    struct mark *mark = &marks[mark_count];
    *mark = (struct mark){.context = context};
    if (DRIVER(cuEventCreate)(&mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        return NULL;
    }
    mark_count++;
    return mark;
}

static void mark(CUcontext context, CUstream stream)
{
    struct mark *made = unused_mark(context);
    made = made && DRIVER(cuEventRecord)(made->event, stream) == CUDA_SUCCESS ? made : NULL;
    if (made) {
        made->pending = true;
    } else {
        DRIVER(cuStreamSynchronize)(stream); /* without an event its work has to end now */
    }
}

static bool captures(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool is_busy(CUstream stream)
{
    return !captures(stream) && DRIVER(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY;
}

static void mark_before_capture(CUcontext context, CUstream stream)
{
    unsigned int flags = CU_STREAM_DEFAULT;
    if (captures(stream)) {
        return;
    }
    DRIVER(cuStreamGetFlags)(stream, &flags);
    if (DRIVER(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY) {
        mark(context, stream);
    }
    /* During the capture the legacy stream cannot be queried, so its work is marked now. */
    if (!(flags & CU_STREAM_NON_BLOCKING) && is_busy(CU_STREAM_LEGACY)) {
        mark(context, CU_STREAM_LEGACY);
    }
}

void streams_will_capture(CUstream stream)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUcontext current = NULL;
    CUcontext context = NULL;
    if (gate_is_alone() || DRIVER(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS) {
        return;
    }
    DRIVER(cuCtxGetCurrent)(&current);
    bool elsewhere = context != current;
    if (elsewhere && DRIVER(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) {
        return;
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    mark_before_capture(context, stream);
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    if (elsewhere) {
        DRIVER(cuCtxPopCurrent_v2)(&current);
    }
}

void streams_note_own(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUcontext context = NULL;
    int kept = errno;
    if (!gate_in_capture() || gate_is_alone() ||
        DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context) {
        return;
    }
    lock_take(&streams_lock);
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    if (!captures(CU_STREAM_PER_THREAD)) {
        mark(context, CU_STREAM_PER_THREAD);
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    lock_drop(&streams_lock);
    errno = kept;
}

/* ---- waiting ---- */

void streams_lock_to_capture(void)
{
    for (int i = 0; i < ENTERS_TRIES; i++) {
        lock_take(&streams_lock);
        if (!synchronising) {
            return;
        }
        lock_drop(&streams_lock);
        nap(ENTERS_NS);
    }
    lock_take(&streams_lock);
}

/* With streams_lock, which is not held while the driver waits. */
static CUresult wait_for_context(void)
{
    synchronising++;
    lock_drop(&streams_lock);
    CUresult result = DRIVER(cuCtxSynchronize)();
    lock_take(&streams_lock);
    synchronising--;
    return result;
}

bool streams_synchronise(CUresult *result)
{
    LOCK_SCOPE(&streams_lock);
    if (gate_in_capture()) {
        return false;
    }
    *result = wait_for_context();
    return true;
}

static bool is_quiet(CUcontext context)
{
    for (size_t i = 0; i < mark_count; i++) {
        if (marks[i].context == context && !is_done(&marks[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < stream_count; i++) {
        if (streams[i].context == context && is_busy(streams[i].stream)) {
            return false;
        }
    }
    return !is_busy(CU_STREAM_LEGACY); /* and all streams that it waits for */
}

bool streams_await_uncaptured(CUcontext context, uint64_t patience_ns)
{
    uint64_t began = now_ns();
    bool over = false;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    while (!over && now_ns() - began < patience_ns) {
        lock_take(&streams_lock);
        over = is_quiet(context);
        lock_drop(&streams_lock);
        if (!over) {
            nap(NAP_NS);
        }
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    return over;
}

void streams_drain(CUcontext context)
{
    for (long pause = NAP_NS;; pause = pause < LONGEST_NAP_NS ? pause * 2 : pause) {
        lock_take(&streams_lock);
        bool over = gate_is_open();
        if (!over && !gate_in_capture()) {
            wait_for_context();
            over = true;
        } else if (!over) {
            over = is_quiet(context);
        }
        lock_drop(&streams_lock);
        if (over) {
            return;
        }
        nap(pause);
    }
}

void streams_after_fork(void)
{
    stream_count = 0;
    mark_count = 0;
    synchronising = 0;
    lock_after_fork(&streams_lock);
}
