#include "simgpu/stream.h"

#include <signal.h>
#include <stdlib.h>

#include "simgpu/capture.h"
#include "simgpu/guard.h"

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

/* ---- the thread ---- */

static void leave_list(CUstream stream)
{
    for (CUstream *at = &stream->context->streams; *at; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            return;
        }
    }
}

static void wait_for_others(struct sg_op *op)
{
    for (size_t i = 0; i < op->wait_count; i++) {
        sg_stream_wait(op->waits[i].stream, op->waits[i].number);
    }
}

static void *carry_out(void *argument)
{
    CUstream stream = argument;
    CUcontext context = stream->context;
    sigset_t mine; /* the program's signals go to the program's threads */
    sigfillset(&mine);
    sigdelset(&mine, SIGSEGV);
    sigdelset(&mine, SIGBUS);
    sigdelset(&mine, SIGFPE);
    sigdelset(&mine, SIGILL);
    sigdelset(&mine, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &mine, NULL);
    sg_precise_sleeps();
    sg_on_gpu = 1;
    pthread_mutex_lock(&context->lock);
    for (;;) {
        while (!stream->first && !stream->stopping) {
            pthread_cond_wait(&stream->work, &context->lock);
        }
        struct sg_op *op = stream->first;
        if (!op) {
            break;
        }
        stream->first = op->next;
        if (!stream->first) {
            stream->last = &stream->first;
        }
        uint64_t ready_ns = op->submitted_ns > stream->end_ns ? op->submitted_ns : stream->end_ns;
        pthread_mutex_unlock(&context->lock);
        if (op->wait_count) {
            wait_for_others(op);
            uint64_t now = sg_now_ns();
            ready_ns = now > ready_ns ? now : ready_ns;
        }
        stream->end_ns = ready_ns;
        uint64_t number = op->number;
        if (!sg_work_begin()) {
            return NULL;
        }
        if (!context->broken || op->kind == SG_OP_RECORD) {
            sg_op_execute(op, stream, ready_ns);
        }
        sg_op_free(op);
        sg_work_end();
        pthread_mutex_lock(&context->lock);
        stream->completed = number;
        pthread_cond_broadcast(&context->changed);
    }
    leave_list(stream);
    pthread_mutex_unlock(&context->lock);
    sg_stream_unref(stream);
    return NULL;
}

static int start(CUstream stream)
{
    pthread_attr_t how;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, 1 << 20);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&stream->thread, &how, carry_out, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    if (!error) { /* the thread waits for the lock that we hold, so it cannot end before */
        sg_stream_ref(stream);
        stream->started = 1;
    }
    return error;
}

/* ---- submitting ---- */

/* The legacy default stream waits for all that was submitted to blocking streams before, and they for it. */
static void wait_as_default_streams_do(CUstream stream, struct sg_op *op)
{
    if (stream->flags & CU_STREAM_NON_BLOCKING) {
        return;
    }
    if (!stream->legacy) {
        CUstream legacy = stream->context->legacy;
        if (legacy->completed < legacy->submitted) {
            sg_op_wait_for(op, legacy, legacy->submitted);
        }
        return;
    }
    for (CUstream other = stream->context->streams; other; other = other->next) {
        if (!other->legacy && !(other->flags & CU_STREAM_NON_BLOCKING) &&
            other->completed < other->submitted) {
            sg_op_wait_for(op, other, other->submitted);
        }
    }
}

static CUresult submit(CUstream stream, struct sg_op *op, uint64_t *number)
{
    CUcontext context = stream->context;
    if (context->broken) {
        sg_op_free(op);
        return context->broken;
    }
    sg_op_count(op);
    op->submitted_ns = sg_now_ns();
    pthread_mutex_lock(&context->lock);
    if (!stream->started && start(stream) != 0) {
        pthread_mutex_unlock(&context->lock);
        sg_op_free(op);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    wait_as_default_streams_do(stream, op);
    op->number = ++stream->submitted;
    *number = op->number;
    if (op->kind == SG_OP_RECORD) {
        op->record->number = op->number;
    }
    for (size_t i = 0; op->kind == SG_OP_GRAPH && i < op->graph.record_count; i++) {
        if (op->graph.records[i]) {
            op->graph.records[i]->number = op->number;
        }
    }
    *stream->last = op;
    stream->last = &op->next;
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult sg_submit(CUstream stream, struct sg_op *op)
{
    uint64_t number;
    if (stream->capture) {
        return sg_capture_op(stream, op);
    }
    CUresult result = sg_capture_forbids_legacy(stream);
    if (result) {
        sg_op_free(op);
    }
    return result ? result : submit(stream, op, &number);
}

CUresult sg_submit_and_wait(CUstream stream, struct sg_op *op)
{
    uint64_t number;
    if (stream->capture) {
        sg_op_free(op);
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUresult result = sg_capture_forbids_legacy(stream);
    if (result) {
        sg_op_free(op);
        return result;
    }
    SG_TRY(submit(stream, op, &number));
    sg_stream_wait(stream, number);
    return stream->context->broken;
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
    if (!stream
             ->started) { /* otherwise its work still counts: the thread leaves when that is done */
        leave_list(stream);
    }
    stream->stopping = 1;
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&context->lock);
    sg_stream_unref(stream);
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
    return handle->context->broken;
}
