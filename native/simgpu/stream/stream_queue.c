#include "simgpu/stream/stream_queue.h"

#include <signal.h>

#include "simgpu/base/entry.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/shared/time_slice.h"

/* ---- the thread ---- */

static void wait_for_others(struct sg_op *op, unsigned gpu)
{
    sg_slice_leave(gpu);
    for (size_t i = 0; i < op->wait_count; i++) {
        sg_stream_wait(op->waits[i].stream, op->waits[i].number);
    }
    sg_slice_enter(gpu);
}

/* The context is locked. */
static void rest(CUstream stream)
{
    if (stream->working) {
        stream->working = 0;
        sg_slice_leave(stream->context->gpu);
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
            rest(stream);
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
            wait_for_others(op, context->gpu);
            uint64_t now = sg_now_ns();
            ready_ns = now > ready_ns ? now : ready_ns;
        }
        stream->end_ns = ready_ns;
        uint64_t number = op->number;
        if (!sg_work_begin()) {
            return NULL;
        }
        if (!context->sticky_error || op->kind->runs_after_error) {
            sg_op_execute(op, stream, ready_ns);
        }
        sg_op_free(op);
        sg_work_end();
        pthread_mutex_lock(&context->lock);
        stream->completed = number;
        pthread_cond_broadcast(&context->changed);
    }
    rest(stream);
    sg_stream_unlist(stream);
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
    if (!error) { /* the thread waits for the context's lock, so it cannot end before this */
        sg_stream_ref(stream);
        stream->started = 1;
    }
    return error;
}

/* ---- handing over ---- */

/* The legacy default stream and the blocking streams wait for each other's earlier work. */
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

CUresult sg_stream_enqueue(CUstream stream, struct sg_op *op, uint64_t *number)
{
    CUcontext context = stream->context;
    if (context->sticky_error) {
        sg_op_free(op);
        return context->sticky_error;
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
    if (op->kind->submitted) {
        op->kind->submitted(op);
    }
    *stream->last = op;
    stream->last = &op->next;
    if (!stream->working) {
        stream->working = 1;
        sg_slice_enter(context->gpu);
    }
    pthread_mutex_unlock(&context->lock);
    pthread_cond_signal(&stream->work); /* the thread would wait for the lock at once */
    return CUDA_SUCCESS;
}
