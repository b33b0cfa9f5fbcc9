#include "simgpu/stream/capture_rules.h"

#include <stdlib.h>

struct sg_captures sg_captures = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void sg_capture_ref(struct sg_capture *capture)
{
    __atomic_add_fetch(&capture->refs, 1, __ATOMIC_ACQ_REL);
}

void sg_capture_unref(struct sg_capture *capture)
{
    if (__atomic_sub_fetch(&capture->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        free(capture->loose);
        free(capture);
    }
}

static int is_any_open(void) { return __atomic_load_n(&sg_captures.count, __ATOMIC_ACQUIRE) != 0; }

CUstreamCaptureMode sg_capture_exchange_mode(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode before = thread_mode;
    thread_mode = mode;
    return before;
}

int sg_capture_uses(CUgraph graph)
{
    int found = 0;
    pthread_mutex_lock(&sg_captures.lock);
    for (struct sg_capture *capture = sg_captures.open; capture; capture = capture->next) {
        found |= capture->graph == graph;
    }
    pthread_mutex_unlock(&sg_captures.lock);
    return found;
}

CUresult sg_captures_refuse(CUstream stream, CUresult why)
{
    if (stream->capture) {
        stream->capture->invalid = 1;
    }
    return why;
}

CUresult sg_capture_refuse(CUstream stream, CUresult why)
{
    pthread_mutex_lock(&sg_captures.lock);
    sg_captures_refuse(stream, why);
    pthread_mutex_unlock(&sg_captures.lock);
    return why;
}

CUresult sg_capture_check(CUstream stream)
{
    pthread_mutex_lock(&sg_captures.lock);
    int invalid = stream->capture && stream->capture->invalid;
    pthread_mutex_unlock(&sg_captures.lock);
    return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult sg_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (!is_any_open() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&sg_captures.lock);
    for (struct sg_capture *capture = sg_captures.open; capture; capture = capture->next) {
        int own = pthread_equal(capture->thread, pthread_self()) &&
                  capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        int any = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                  capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || any) {
            capture->invalid = 1;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&sg_captures.lock);
    return result;
}

/* Returns whether one of its streams is of this context; with `only_blocking`, a blocking one. The caller
 * holds the lock. */
static int touches(const struct sg_capture *capture, CUcontext context, int only_blocking)
{
    for (CUstream member = capture->members; member; member = member->next_member) {
        if (member->context == context &&
            !(only_blocking && member->flags & CU_STREAM_NON_BLOCKING)) {
            return 1;
        }
    }
    return 0;
}

static int conflicts(CUcontext context, int only_blocking, int invalidate)
{
    int found = 0;
    if (!is_any_open()) {
        return 0;
    }
    pthread_mutex_lock(&sg_captures.lock);
    for (struct sg_capture *capture = sg_captures.open; capture; capture = capture->next) {
        if (touches(capture, context, only_blocking)) {
            capture->invalid |= invalidate;
            found = 1;
        }
    }
    pthread_mutex_unlock(&sg_captures.lock);
    return found;
}

CUresult sg_capture_forbids_context(CUcontext context)
{
    return conflicts(context, 0, 1) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult sg_capture_forbids_legacy(CUstream stream)
{
    return stream->legacy && conflicts(stream->context, 1, 1) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                              : CUDA_SUCCESS;
}

int sg_capture_blocks_legacy(CUstream stream)
{
    return stream->legacy && conflicts(stream->context, 1, 0);
}

CUresult sg_capture_forbids_query(struct sg_capture *capture)
{
    if (!capture) {
        return sg_capture_forbids();
    }
    pthread_mutex_lock(&sg_captures.lock);
    capture->invalid = 1;
    pthread_mutex_unlock(&sg_captures.lock);
    return CUDA_ERROR_CAPTURED_EVENT;
}
