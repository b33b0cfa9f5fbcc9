#include "shim/lines.h"

#include <stdlib.h>

#include "shim/gate.h"
#include "shim/real.h"

static struct line *lines;
static uint64_t frees;
static uint64_t threads;
static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));

static uint64_t this_thread(void)
{
    if (!own_number) {
        own_number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    }
    return own_number;
}

static struct line *fresh(void)
{
    for (struct line *line = lines; line; line = line->next) {
        if (line->gone && line->pieces == 0) {
            struct line *next = line->next;
            CUevent event = line->event;
            *line = (struct line){.next = next};
            if (event) {
                REAL(cuEventDestroy_v2)(event);
            }
            return line;
        }
    }
    struct line *made = calloc(1, sizeof(*made));
    if (made) {
        made->next = lines;
        lines = made;
    }
    return made;
}

static CUresult device_of(CUcontext context, CUdevice *ordinal)
{
    CUcontext popped;
    CUresult result = REAL(cuCtxPushCurrent_v2)(context);
    if (result == CUDA_SUCCESS) {
        result = REAL(cuCtxGetDevice)(ordinal);
        REAL(cuCtxPopCurrent_v2)(&popped);
    }
    return result;
}

CUresult line_of(CUstream stream, struct line **line)
{
    bool own = stream == CU_STREAM_PER_THREAD;
    bool legacy = !stream || stream == CU_STREAM_LEGACY;
    uint64_t thread = own ? this_thread() : 0;
    CUcontext context = NULL;
    CUdevice ordinal;
    unsigned int flags = 0;
    CUresult result;
    if (own || legacy) {
        result = REAL(cuCtxGetCurrent)(&context);
        if (result != CUDA_SUCCESS || !context) {
            return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_CONTEXT;
        }
        stream = own ? stream : CU_STREAM_LEGACY;
    }
    for (struct line *at = lines; at; at = at->next) {
        if (!at->gone && at->stream == stream && at->thread == thread &&
            (!context || at->context == context)) {
            *line = at;
            return CUDA_SUCCESS;
        }
    }
    if (!context) {
        result = REAL(cuStreamGetCtx)(stream, &context);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        REAL(cuStreamGetFlags)(stream, &flags);
    }
    result = device_of(context, &ordinal);
    struct line *made = result == CUDA_SUCCESS ? fresh() : NULL;
    if (!made) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->stream = stream;
    made->context = context;
    made->ordinal = ordinal;
    made->thread = thread;
    made->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    made->freed = made->over = frees;
    *line = made;
    return CUDA_SUCCESS;
}

/* ---- how far it is ---- */

static void record(struct line *line)
{
    CUcontext popped;
    if (REAL(cuCtxPushCurrent_v2)(line->context) != CUDA_SUCCESS) {
        return;
    }
    if ((line->event ||
         REAL(cuEventCreate)(&line->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
        REAL(cuEventRecord)(line->event, line->stream) == CUDA_SUCCESS) {
        line->recorded = line->freed;
    }
    REAL(cuCtxPopCurrent_v2)(&popped);
}

/* Only the thread itself can name its own default stream. */
static bool can_name(const struct line *line)
{
    return !line->gone && (!line->thread || line->thread == this_thread());
}

uint64_t line_free(struct line *line)
{
    line->freed = ++frees;
    if (line->thread) {
        record(line); /* another thread may want to know */
    }
    return line->freed;
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
static bool is_idle(const struct line *line)
{
    CUcontext current = NULL;
    CUresult result = REAL(cuStreamQuery)(line->stream);
    if (result == CUDA_SUCCESS && line->blocking && line->stream != CU_STREAM_LEGACY) {
        REAL(cuCtxGetCurrent)(&current);
        result =
            current == line->context ? REAL(cuStreamQuery)(CU_STREAM_LEGACY) : CUDA_ERROR_NOT_READY;
    }
    return says_over(result);
}

static bool in_other_context(const struct line *line)
{
    CUcontext current = NULL;
    bool by_context = line->stream == CU_STREAM_LEGACY || line->thread;
    return by_context &&
           (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || current != line->context);
}

static bool look(struct line *line)
{
    uint64_t before = line->over;
    if (can_name(line) && !in_other_context(line) && is_idle(line)) {
        line->over = line->freed;
        return true;
    }
    if (line->recorded > line->over && says_over(REAL(cuEventQuery)(line->event))) {
        line->over = line->recorded;
    }
    if (line->recorded <= line->over && line->over < line->freed && can_name(line)) {
        record(line);
    }
    return line->over > before;
}

bool lines_look(void)
{
    bool further = false;
    if (gate_in_capture()) {
        return false; /* asking could break it */
    }
    for (struct line *line = lines; line; line = line->next) {
        if (line->pieces && line->over < line->freed) {
            further |= look(line);
        }
    }
    return further;
}

CUresult line_await(struct line *line, CUstream stream)
{
    if (line->recorded < line->freed) {
        if (!can_name(line) || gate_in_capture()) {
            return CUDA_ERROR_NOT_READY; /* waiting for what is captured would join the capture */
        }
        record(line);
    }
    return line->recorded < line->freed ? CUDA_ERROR_NOT_READY
                                        : REAL(cuStreamWaitEvent)(stream, line->event, 0);
}

/* ---- the end of streams ---- */

void lines_forget_stream(CUstream stream)
{
    for (struct line *line = lines; line; line = line->next) {
        if (line->gone || line->thread || line->stream != stream) {
            continue;
        }
        if (line->pieces && line->over < line->freed) {
            record(line); /* what is recorded stays when the stream goes */
            if (line->recorded < line->freed) {
                REAL(cuStreamSynchronize)(stream);
                line->over = line->freed;
            }
        }
        line->gone = true;
    }
}

void lines_forget_context(CUcontext context)
{
    for (struct line *line = lines; line; line = line->next) {
        if (line->context == context) {
            line->gone = true;
            line->over = line->freed;
            line->event = NULL; /* gone with it */
        }
    }
}

void lines_after_fork(void) { lines = NULL; }
