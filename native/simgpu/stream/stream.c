#include "simgpu/stream/stream.h"

#include <stdlib.h>

#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/context/context_stack.h"

static uint64_t next_id = 1;

CUstream sg_stream_new(CUcontext context, unsigned flags, int priority)
{
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream) {
        return NULL;
    }
    stream->context = context;
    stream->refs = 1;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    stream->last = &stream->first;
    pthread_cond_init(&stream->work, NULL);
    pthread_mutex_lock(&context->lock);
    stream->next = context->streams;
    context->streams = stream;
    pthread_mutex_unlock(&context->lock);
    return stream;
}

void sg_stream_ref(CUstream stream) { __atomic_add_fetch(&stream->refs, 1, __ATOMIC_ACQ_REL); }

void sg_stream_unref(CUstream stream)
{
    if (__atomic_sub_fetch(&stream->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        pthread_cond_destroy(&stream->work);
        free(stream->captured);
        free(stream->captured_edges);
        free(stream);
    }
}

void sg_stream_unlist(CUstream stream)
{
    for (CUstream *at = &stream->context->streams; *at; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            return;
        }
    }
}

void sg_stream_wait(CUstream stream, uint64_t number)
{
    CUcontext context = stream->context;
    pthread_mutex_lock(&context->lock);
    while (stream->completed < number) {
        sg_context_wait(context);
    }
    pthread_mutex_unlock(&context->lock);
}

int sg_stream_done(CUstream stream, uint64_t number)
{
    pthread_mutex_lock(&stream->context->lock);
    int done = stream->completed >= number;
    pthread_mutex_unlock(&stream->context->lock);
    return done;
}

void sg_stream_close(CUstream stream)
{
    CUcontext context = stream->context;
    pthread_mutex_lock(&context->lock);
    if (!stream->started) { /* a started stream stays listed until its thread ends */
        sg_stream_unlist(stream);
    }
    stream->stopping = 1;
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&context->lock);
    sg_stream_unref(stream);
}

/* Waits for work that was submitted until now, not for work that other threads submit meanwhile. */
CUresult sg_context_drain(CUcontext context)
{
    struct {
        CUstream stream;
        uint64_t number;
    } *busy = NULL;
    size_t count = 0;
    size_t room = 0;
    pthread_mutex_lock(&context->lock);
    for (CUstream stream = context->streams; stream; stream = stream->next) {
        if (stream->completed >= stream->submitted) {
            continue;
        }
        if (count == room) {
            room = room ? room * 2 : 16;
            busy = sg_resize(busy, room * sizeof *busy);
        }
        sg_stream_ref(stream); /* it may be closed meanwhile */
        busy[count].stream = stream;
        busy[count++].number = stream->submitted;
    }
    pthread_mutex_unlock(&context->lock);
    for (size_t i = 0; i < count; i++) {
        sg_stream_wait(busy[i].stream, busy[i].number);
        sg_stream_unref(busy[i].stream);
    }
    free(busy);
    return context->sticky_error;
}

/* ---- default streams ---- */

static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

struct own {
    struct own *next;
    CUcontext context;
    CUstream stream;
};

static void close_own(void *argument)
{
    for (struct own *own = argument, *next; own; own = next) {
        next = own->next;
        if (!own->context->destroyed) {
            sg_stream_close(own->stream);
        }
        free(own);
    }
}

static void make_key(void) { pthread_key_create(&own_key, close_own); }

static CUresult own_stream(CUcontext context, CUstream *out)
{
    pthread_once(&own_once, make_key);
    struct own *first = pthread_getspecific(own_key);
    for (struct own *own = first; own; own = own->next) {
        if (own->context == context) {
            *out = own->stream;
            return CUDA_SUCCESS;
        }
    }
    struct own *own = malloc(sizeof *own);
    CUstream stream = sg_stream_new(context, CU_STREAM_DEFAULT, 0);
    if (!own || !stream) {
        free(own);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->per_thread = 1;
    *own = (struct own){first, context, stream};
    pthread_setspecific(own_key, own);
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult sg_stream_of(CUstream handle, CUstream *out)
{
    CUcontext context = NULL;
    if (handle == CU_STREAM_PER_THREAD || (!handle && sg_per_thread_default)) {
        SG_TRY(sg_enter_context(&context));
        return own_stream(context, out);
    }
    if (!handle || handle == CU_STREAM_LEGACY) {
        SG_TRY(sg_enter_context(&context));
        *out = context->legacy;
        return CUDA_SUCCESS;
    }
    SG_ENTER();
    if (!sg_handle_is(handle, SG_STREAM)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (handle->context->destroyed) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *out = handle;
    return handle->context->sticky_error;
}
