#include "simgpu/capture.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/graph.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_capture *open_captures;
static unsigned open_count; /* read without the lock where none is the common case */
static uint64_t next_id = 1;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void sg_capture_unref(struct sg_capture *capture)
{
    if (__atomic_sub_fetch(&capture->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    if (capture->graph) {
        sg_graph_free(capture->graph);
    }
    free(capture);
}

static void hold(struct sg_capture *capture)
{
    __atomic_add_fetch(&capture->refs, 1, __ATOMIC_ACQ_REL);
}

void sg_capture_follow(CUstream stream, const CUgraphNode *nodes, size_t count)
{
    CUgraphNode *copy = count ? malloc(count * sizeof *copy) : NULL;
    if (count) {
        memcpy(copy, nodes, count * sizeof *copy);
    }
    free(stream->captured);
    stream->captured = copy;
    stream->captured_count = count;
}

/* ---- what a capture does not allow ---- */

CUresult sg_capture_refuse(CUstream stream, CUresult why)
{
    if (stream->capture) {
        stream->capture->invalid = 1;
    }
    return why;
}

CUresult sg_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (!__atomic_load_n(&open_count, __ATOMIC_ACQUIRE) ||
        thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    for (struct sg_capture *capture = open_captures; capture; capture = capture->next) {
        int own = pthread_equal(capture->thread, pthread_self()) &&
                  capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        int any = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                  capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || any) {
            capture->invalid = 1;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult sg_capture_forbids_legacy(CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream->legacy || !__atomic_load_n(&open_count, __ATOMIC_ACQUIRE)) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&stream->context->lock);
    for (CUstream other = stream->context->streams; other; other = other->next) {
        if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING)) {
            other->capture->invalid = 1;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    pthread_mutex_unlock(&stream->context->lock);
    return result;
}

/* ---- what is captured ---- */

CUresult sg_capture_op(CUstream stream, struct sg_op *op)
{
    static const CUgraphNodeType types[] = {
        [SG_OP_NOTHING] = CU_GRAPH_NODE_TYPE_EMPTY,
        [SG_OP_WAIT] = CU_GRAPH_NODE_TYPE_EMPTY,
        [SG_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SG_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [SG_OP_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SG_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [SG_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [SG_OP_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SG_OP_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
    };
    struct sg_capture *capture = stream->capture;
    if (capture->invalid || op->kind == SG_OP_FREE || op->kind == SG_OP_PREFETCH ||
        op->kind == SG_OP_CALLBACK) {
        sg_op_free(op);
        return sg_capture_refuse(stream, capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                          : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUgraphNode node =
        sg_graph_add(capture->graph, types[op->kind], op, stream->captured, stream->captured_count);
    sg_capture_follow(stream, &node, 1);
    return CUDA_SUCCESS;
}

CUresult sg_capture_record(CUstream stream, struct sg_record *record)
{
    hold(stream->capture);
    record->capture = stream->capture;
    record->node_count = stream->captured_count;
    record->nodes = record->node_count ? malloc(record->node_count * sizeof *record->nodes) : NULL;
    if (record->node_count) {
        memcpy(record->nodes, stream->captured, record->node_count * sizeof *record->nodes);
    }
    sg_record_unref(record);
    return CUDA_SUCCESS;
}

static void join(CUstream stream, struct sg_capture *capture)
{
    hold(capture);
    stream->capture = capture;
    stream->captured = NULL;
    stream->captured_count = 0;
}

CUresult sg_capture_wait(CUstream stream, struct sg_record *record)
{
    if (!record->capture) { /* what was recorded outside is not there when the graph is launched */
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (!record->capture->open) {
        return stream->capture ? sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                               : CUDA_ERROR_CAPTURED_EVENT;
    }
    if (stream->legacy) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!stream->capture) {
        join(stream, record->capture);
    } else if (stream->capture != record->capture) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    size_t count = stream->captured_count + record->node_count;
    CUgraphNode *both = malloc((count + 1) * sizeof *both);
    size_t n = 0;
    for (size_t i = 0; i < stream->captured_count; i++) {
        both[n++] = stream->captured[i];
    }
    for (size_t i = 0; i < record->node_count; i++) {
        int there = 0;
        for (size_t j = 0; j < n; j++) {
            there |= both[j] == record->nodes[i];
        }
        if (!there) {
            both[n++] = record->nodes[i];
        }
    }
    sg_capture_follow(stream, both, n);
    free(both);
    return CUDA_SUCCESS;
}

/* ---- beginning and ending ---- */

static void leave(CUstream stream)
{
    struct sg_capture *capture = stream->capture;
    stream->capture = NULL;
    sg_capture_follow(stream, NULL, 0);
    sg_capture_unref(capture);
}

static void close_capture(struct sg_capture *capture)
{
    pthread_mutex_lock(&lock);
    for (struct sg_capture **at = &open_captures; *at; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            open_count--;
            break;
        }
    }
    capture->open = 0;
    pthread_mutex_unlock(&lock);
}

void sg_capture_abandon(CUstream stream)
{
    if (stream->capture->origin == stream) {
        close_capture(stream->capture);
    }
    stream->capture->invalid = 1;
    leave(stream);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->legacy) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    struct sg_capture *capture = calloc(1, sizeof *capture);
    if (!capture) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->refs = 1;
    capture->open = 1;
    capture->graph = sg_graph_new();
    capture->mode = mode;
    capture->origin = stream;
    capture->thread = pthread_self();
    join(stream, capture);
    pthread_mutex_lock(&lock);
    capture->id = next_id++;
    capture->next = open_captures;
    open_captures = capture;
    open_count++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static int leads_to(CUgraphNode from, CUgraphNode node)
{
    if (from == node) {
        return 1;
    }
    for (size_t i = 0; i < node->depend_count; i++) {
        if (leads_to(from, node->depends[i])) {
            return 1;
        }
    }
    return 0;
}

/* Whatever another stream captured last must come before what the origin captured last. */
static int joined(CUstream other, CUstream origin)
{
    for (size_t i = 0; i < other->captured_count; i++) {
        int found = 0;
        for (size_t j = 0; j < origin->captured_count && !found; j++) {
            found = leads_to(other->captured[i], origin->captured[j]);
        }
        if (!found) {
            return 0;
        }
    }
    return 1;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    CUstream stream;
    CUresult result = CUDA_SUCCESS;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = NULL;
    struct sg_capture *capture = stream->capture;
    if (!capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self())) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    pthread_mutex_lock(&stream->context->lock);
    for (CUstream other = stream->context->streams; other; other = other->next) {
        if (other->capture != capture || other == stream) {
            continue;
        }
        if (!joined(other, stream)) {
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        }
        leave(other);
    }
    pthread_mutex_unlock(&stream->context->lock);
    leave(stream);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the reference of beginning is still there
    close_capture(capture);
    if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!result) {
        *out = capture->graph;
        capture->graph = NULL;
    }
    sg_capture_unref(capture);
    return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SG_ENTER();
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
