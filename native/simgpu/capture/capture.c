#include "simgpu/capture/capture.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/resize.h"
#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_exec.h"
#include "simgpu/graph/graph_memory.h"

static void follow(CUstream stream, const CUgraphNode *nodes, size_t count)
{
    CUgraphNode *copy = count ? sg_resize(NULL, count * sizeof *copy) : NULL;
    if (count) {
        memcpy(copy, nodes, count * sizeof *copy);
    }
    free(stream->captured);
    free(stream->captured_edges);
    stream->captured_edges = count ? calloc(count, sizeof *stream->captured_edges) : NULL;
    stream->captured = copy;
    stream->captured_count = count;
}

void sg_capture_follow(CUstream stream, const CUgraphNode *nodes, size_t count)
{
    pthread_mutex_lock(&sg_captures.lock);
    follow(stream, nodes, count);
    pthread_mutex_unlock(&sg_captures.lock);
}

/* ---- what is captured ---- */

CUresult sg_capture_op(CUstream stream, struct sg_op *op)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sg_captures.lock);
    struct sg_capture *capture = stream->capture;
    if (!capture || capture->invalid) { /* NULL: another thread has just ended it */
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!op->kind->is_capturable) {
        result = sg_captures_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (result) {
        sg_op_free(op);
    } else {
        CUgraph child = op->kind == &sg_kind_graph ? sg_graph_exec_copy(op->graph.exec) : NULL;
        CUgraphNode node = sg_graph_add(capture->graph, op->kind->node_type, child ? NULL : op,
                                        stream->captured, stream->captured_count);
        if (child) { /* the launched graph becomes a child graph */
            child->owned = 1;
            node->child = child;
            sg_op_free(op);
        }
        follow(stream, &node, 1);
    }
    pthread_mutex_unlock(&sg_captures.lock);
    return result;
}

CUresult sg_capture_alloc_op(CUstream stream, struct sg_op **op, unsigned gpu, size_t bytes,
                             CUdeviceptr *address)
{
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&sg_captures.lock);
    if (stream->capture) { /* else another thread has just ended it */
        result = sg_graph_alloc_op(op, stream->capture->graph, stream->captured,
                                   stream->captured_count, gpu, bytes, address);
    }
    pthread_mutex_unlock(&sg_captures.lock);
    return result;
}

CUresult sg_capture_record(CUstream stream, struct sg_record *record)
{
    pthread_mutex_lock(&sg_captures.lock);
    if (stream->capture) {
        sg_capture_ref(stream->capture);
        record->capture = stream->capture;
        record->node_count = stream->captured_count;
        record->nodes =
            record->node_count ? sg_resize(NULL, record->node_count * sizeof *record->nodes) : NULL;
        if (record->node_count) {
            memcpy(record->nodes, stream->captured, record->node_count * sizeof *record->nodes);
        }
    }
    pthread_mutex_unlock(&sg_captures.lock);
    sg_record_unref(record);
    return CUDA_SUCCESS;
}

static void join(CUstream stream, struct sg_capture *capture)
{
    sg_capture_ref(capture);
    sg_stream_ref(stream);
    stream->next_member = capture->members;
    capture->members = stream;
    stream->capture = capture;
    stream->captured = NULL;
    stream->captured_edges = NULL;
    stream->captured_count = 0;
}

/* Makes the stream's next node depend on its last ones and on those of the record. */
static void follow_both(CUstream stream, const struct sg_record *record)
{
    size_t n = stream->captured_count;
    CUgraphNode *both = sg_resize(NULL, (n + record->node_count + 1) * sizeof *both);
    if (n) {
        memcpy(both, stream->captured, n * sizeof *both);
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
    follow(stream, both, n);
    free(both);
}

static CUresult wait_for(CUstream stream, struct sg_record *record)
{
    struct sg_capture *theirs = record->capture;
    if (stream->capture && stream->capture->invalid) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!theirs || !theirs->open) {
        /* A record outside of the capture does not exist when the graph is launched. */
        return stream->capture ? sg_captures_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                               : CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->legacy) {
        theirs->invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != theirs) {
        theirs->invalid = 1;
        return sg_captures_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (theirs->invalid) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!stream->capture) {
        join(stream, theirs);
    }
    follow_both(stream, record);
    return CUDA_SUCCESS;
}

CUresult sg_capture_wait(CUstream stream, struct sg_record *record)
{
    pthread_mutex_lock(&sg_captures.lock);
    CUresult result = wait_for(stream, record);
    pthread_mutex_unlock(&sg_captures.lock);
    return result;
}

/* ---- beginning and ending ---- */

static void leave(CUstream stream)
{
    struct sg_capture *capture = stream->capture;
    for (CUstream *at = &capture->members; *at; at = &(*at)->next_member) {
        if (*at == stream) {
            *at = stream->next_member;
            break;
        }
    }
    stream->capture = NULL;
    follow(stream, NULL, 0);
    sg_stream_unref(stream);
    sg_capture_unref(capture);
}

static void close_capture(struct sg_capture *capture)
{
    while (capture->members) {
        leave(capture->members);
    }
    for (struct sg_capture **at = &sg_captures.open; *at; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            __atomic_sub_fetch(&sg_captures.count, 1, __ATOMIC_RELEASE);
            break;
        }
    }
    capture->open = 0;
}

/* Frees the graph of a capture that was closed without a result. */
static void drop_graph(struct sg_capture *capture)
{
    if (capture->graph && !capture->into_given) {
        sg_graph_free(capture->graph);
    }
    capture->graph = NULL;
}

static void let_loose(struct sg_capture *capture, CUstream stream)
{
    size_t count = capture->loose_count + stream->captured_count;
    if (stream->captured_count) {
        capture->loose = sg_resize(capture->loose, count * sizeof *capture->loose);
        memcpy(capture->loose + capture->loose_count, stream->captured,
               stream->captured_count * sizeof *capture->loose);
        capture->loose_count = count;
    }
}

void sg_capture_abandon(CUstream stream)
{
    pthread_mutex_lock(&sg_captures.lock);
    struct sg_capture *capture = stream->capture;
    if (capture && capture->origin == stream) {
        sg_capture_ref(capture);
        capture->invalid = 1;
        close_capture(capture);
        drop_graph(capture);
        sg_capture_unref(capture);
    } else if (capture) {
        let_loose(capture, stream);
        leave(stream);
    }
    pthread_mutex_unlock(&sg_captures.lock);
}

CUresult sg_capture_begin(CUstream stream, CUgraph graph, const CUgraphNode *nodes, size_t count,
                          CUstreamCaptureMode mode)
{
    struct sg_capture *capture = calloc(1, sizeof *capture);
    if (!capture) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&sg_captures.lock);
    if (stream->capture) {
        pthread_mutex_unlock(&sg_captures.lock);
        free(capture);
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    capture->open = 1;
    capture->into_given = graph != NULL;
    capture->graph = graph ? graph : sg_graph_new();
    capture->mode = mode;
    capture->origin = stream;
    capture->thread = pthread_self();
    join(stream, capture);
    follow(stream, nodes, count);
    capture->id = sg_captures.next_id++;
    capture->next = sg_captures.open;
    sg_captures.open = capture;
    __atomic_add_fetch(&sg_captures.count, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sg_captures.lock);
    return CUDA_SUCCESS;
}

/* Returns whether the origin's last nodes depend on each of these nodes. */
static int is_joined(const CUgraphNode *last, size_t count, CUstream origin)
{
    for (size_t i = 0; i < count; i++) {
        int found = 0;
        for (size_t j = 0; j < origin->captured_count && !found; j++) {
            found = sg_graph_leads_to(last[i], origin->captured[j]);
        }
        if (!found) {
            return 0;
        }
    }
    return 1;
}

static CUresult end(CUstream stream, CUgraph *out)
{
    struct sg_capture *capture = stream->capture;
    CUresult result = CUDA_SUCCESS;
    if (!capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        return sg_captures_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self())) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    sg_capture_ref(capture);
    if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!is_joined(capture->loose, capture->loose_count, stream)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    for (CUstream other = capture->members; other && !result; other = other->next_member) {
        if (!is_joined(other->captured, other->captured_count, stream)) {
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        }
    }
    close_capture(capture);
    if (!result) {
        *out = capture->graph;
        capture->graph = NULL;
    }
    drop_graph(capture);
    sg_capture_unref(capture);
    return result;
}

CUresult sg_capture_end(CUstream stream, CUgraph *out)
{
    pthread_mutex_lock(&sg_captures.lock);
    CUresult result = end(stream, out);
    pthread_mutex_unlock(&sg_captures.lock);
    return result;
}
