#include "shim/pool/stream_fence.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/gate/gate.h"

struct lock pools_lock = LOCK_INIT(LOCK_POOLS);
static struct stream_fence *fences;
static uint64_t frees;
static uint64_t threads;
static bool key_made;
static unsigned key;
static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));

static void record(struct stream_fence *fence);

/* A thread ends, and no other can name its default stream: what it freed there is over when its events are. */
static void end_thread(void *number)
{
    uint64_t thread = (uint64_t)(uintptr_t)number;
    LOCK_SCOPE(&pools_lock);
    for (struct stream_fence *fence = fences; fence; fence = fence->next) {
        if (fence->thread != thread || fence->gone) {
            continue;
        }
        if (fence->pieces && fence->recorded < fence->freed) {
            record(fence);
        }
        fence->gone = true;
    }
    own_number = 0; /* it may come again before it has ended */
}

static uint64_t this_thread(void)
{
    if (!own_number) {
        own_number = ++threads;
        key_made = key_made ||
                   (driver_threads.key_create && driver_threads.key_create(&key, end_thread) == 0);
        if (key_made) {
            driver_threads.set_specific(key, (void *)(uintptr_t)own_number);
        }
    }
    return own_number;
}

static struct stream_fence *fresh(void)
{
    for (struct stream_fence *fence = fences; fence; fence = fence->next) {
        if (fence->gone && fence->pieces == 0) {
            struct stream_fence *next = fence->next;
            CUevent event = fence->event;
            *fence = (struct stream_fence){.next = next};
            if (event) {
                DRIVER(cuEventDestroy_v2)(event);
            }
            return fence;
        }
    }
    struct stream_fence *made = calloc(1, sizeof(*made));
    if (made) {
        made->next = fences;
        fences = made;
    }
    return made;
}

static CUresult device_of(CUcontext context, CUdevice *ordinal)
{
    CUcontext popped;
    CUresult result = DRIVER(cuCtxPushCurrent_v2)(context);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuCtxGetDevice)(ordinal);
        DRIVER(cuCtxPopCurrent_v2)(&popped);
    }
    return result;
}

CUresult stream_fence_of(CUstream stream, struct stream_fence **fence)
{
    bool own = stream == CU_STREAM_PER_THREAD;
    bool legacy = !stream || stream == CU_STREAM_LEGACY;
    uint64_t thread = own ? this_thread() : 0;
    CUcontext context = NULL;
    CUdevice ordinal;
    unsigned int flags = 0;
    CUresult result;
    if (own || legacy) {
        result = DRIVER(cuCtxGetCurrent)(&context);
        if (result != CUDA_SUCCESS || !context) {
            return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_CONTEXT;
        }
        stream = own ? stream : CU_STREAM_LEGACY;
    }
    for (struct stream_fence *at = fences; at; at = at->next) {
        if (!at->gone && at->stream == stream && at->thread == thread &&
            (!context || at->context == context)) {
            *fence = at;
            return CUDA_SUCCESS;
        }
    }
    if (!context) {
        result = DRIVER(cuStreamGetCtx)(stream, &context);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        DRIVER(cuStreamGetFlags)(stream, &flags);
    }
    result = device_of(context, &ordinal);
    struct stream_fence *made = result == CUDA_SUCCESS ? fresh() : NULL;
    if (!made) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->stream = stream;
    made->context = context;
    made->ordinal = ordinal;
    made->thread = thread;
    made->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    made->freed = made->over = frees;
    *fence = made;
    return CUDA_SUCCESS;
}

/* ---- how far it is ---- */

static void record(struct stream_fence *fence)
{
    CUcontext popped;
    if (DRIVER(cuCtxPushCurrent_v2)(fence->context) != CUDA_SUCCESS) {
        return;
    }
    if ((fence->event ||
         DRIVER(cuEventCreate)(&fence->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
        DRIVER(cuEventRecord)(fence->event, fence->stream) == CUDA_SUCCESS) {
        fence->recorded = fence->freed;
    }
    DRIVER(cuCtxPopCurrent_v2)(&popped);
}

/* Only the thread itself can name its own default stream. */
static bool can_name(const struct stream_fence *fence)
{
    return !fence->gone && (!fence->thread || fence->thread == this_thread());
}

uint64_t stream_fence_free(struct stream_fence *fence)
{
    fence->freed = ++frees;
    if (fence->thread) {
        record(fence); /* another thread may want to know */
    }
    return fence->freed;
}

/* Another thread may have begun a capture meanwhile: then nothing is known. In a broken context
 * everything is over. */
static bool says_over(CUresult result)
{
    bool captured = result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                    result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return result != CUDA_ERROR_NOT_READY && !captured;
}

/* What runs in the legacy stream counts as well where the stream is one that waits for it. */
static bool is_idle(const struct stream_fence *fence)
{
    CUcontext current = NULL;
    CUresult result = DRIVER(cuStreamQuery)(fence->stream);
    if (result == CUDA_SUCCESS && fence->blocking && fence->stream != CU_STREAM_LEGACY) {
        DRIVER(cuCtxGetCurrent)(&current);
        result = current == fence->context ? DRIVER(cuStreamQuery)(CU_STREAM_LEGACY)
                                           : CUDA_ERROR_NOT_READY;
    }
    return says_over(result);
}

static bool in_other_context(const struct stream_fence *fence)
{
    CUcontext current = NULL;
    bool by_context = fence->stream == CU_STREAM_LEGACY || fence->thread;
    return by_context &&
           (DRIVER(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || current != fence->context);
}

/* What is asked of a stream that captures, or of the legacy one while a blocking one does, breaks the capture. */
static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gate_in_capture() && (DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
                                 status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* False: the stream cannot be asked by itself. */
static bool can_ask(const struct stream_fence *fence)
{
    return can_name(fence) && !in_other_context(fence) && !is_captured(fence->stream) &&
           (!fence->blocking || !is_captured(CU_STREAM_LEGACY));
}

static bool look(struct stream_fence *fence)
{
    uint64_t before = fence->over;
    if (can_ask(fence) && is_idle(fence)) {
        fence->over = fence->freed;
        return true;
    }
    if (fence->recorded > fence->over && says_over(DRIVER(cuEventQuery)(fence->event))) {
        fence->over = fence->recorded;
    }
    if (fence->recorded <= fence->over && fence->over < fence->freed && can_name(fence) &&
        !is_captured(fence->stream)) {
        record(fence);
    }
    return fence->over > before;
}

bool stream_fences_poll(void) { return !gate_in_capture() && stream_fences_poll_uncaptured(); }

bool stream_fences_poll_uncaptured(void)
{
    bool further = false;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    for (struct stream_fence *fence = fences; fence; fence = fence->next) {
        if (fence->pieces && fence->over < fence->freed) {
            further |= look(fence);
        }
    }
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    return further;
}

CUresult stream_fence_await(struct stream_fence *fence, CUstream stream)
{
    if (fence->recorded < fence->freed) {
        if (!can_name(fence) || gate_in_capture()) {
            return CUDA_ERROR_NOT_READY; /* waiting for what is captured would join the capture */
        }
        record(fence);
    }
    return fence->recorded < fence->freed ? CUDA_ERROR_NOT_READY
                                          : DRIVER(cuStreamWaitEvent)(stream, fence->event, 0);
}

/* ---- the end of streams ---- */

void stream_fences_forget_stream(CUstream stream)
{
    for (struct stream_fence *fence = fences; fence; fence = fence->next) {
        if (fence->gone || fence->thread || fence->stream != stream) {
            continue;
        }
        if (fence->pieces && fence->over < fence->freed) {
            record(fence); /* what is recorded stays when the stream goes */
            if (fence->recorded < fence->freed) {
                DRIVER(cuStreamSynchronize)(stream);
                fence->over = fence->freed;
            }
        }
        fence->gone = true;
    }
}

void stream_fences_forget_context(CUcontext context)
{
    for (struct stream_fence *fence = fences; fence; fence = fence->next) {
        if (fence->context == context) {
            fence->gone = true;
            fence->over = fence->freed;
            fence->event = NULL; /* gone with it */
        }
    }
}

void stream_fences_after_fork(void)
{
    fences = NULL;
    key_made = false; /* the key that was made would end the threads of the parent */
}
