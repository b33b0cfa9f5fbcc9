/* The entry points about captures. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/capture/capture.h"
#include "simgpu/graph/graph.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"

/* ---- beginning and ending ---- */

static CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode *nodes, size_t count,
                      CUstreamCaptureMode mode)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->legacy) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sg_capture_begin(stream, graph, nodes, count, mode);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begin(stream, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    return begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
                                     const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode)
{
    SG_ENTER();
    (void)edges; /* they control scheduling in hardware */
    if (!sg_handle_is(graph, SG_GRAPH) || (count && !nodes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sg_handle_is(nodes[i], SG_GRAPH_NODE) || nodes[i]->graph != graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return begin(stream, graph, nodes, count, mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = NULL;
    return sg_capture_end(stream, out);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SG_ENTER();
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *mode = sg_capture_exchange_mode(*mode);
    return CUDA_SUCCESS;
}

/* ---- questions, and another place to go on from ---- */

static CUstreamCaptureStatus status_of(CUstream stream)
{
    return !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : sg_capture_check(stream) ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!status) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sg_capture_blocks_legacy(stream)) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    *status = status_of(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies,
                                   const CUgraphEdgeData **edges, size_t *count)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!status) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sg_capture_blocks_legacy(stream)) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return CUDA_SUCCESS;
    }
    if (id) {
        *id = stream->capture->id;
    }
    if (graph) {
        *graph = stream->capture->graph;
    }
    if (dependencies) {
        *dependencies = stream->captured;
    }
    if (edges) {
        *edges = stream->captured_edges;
    }
    if (count) {
        *count = stream->captured_count;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *nodes, size_t count,
                                           unsigned int flags)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (status_of(stream) != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sg_handle_is(nodes[i], SG_GRAPH_NODE) || nodes[i]->graph != stream->capture->graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    size_t kept = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ? stream->captured_count : 0;
    CUgraphNode *all = sg_resize(NULL, (kept + count + 1) * sizeof *all);
    if (kept) {
        memcpy(all, stream->captured, kept * sizeof *all);
    }
    if (count) {
        memcpy(all + kept, nodes, count * sizeof *all);
    }
    sg_capture_follow(stream, all, kept + count);
    free(all);
    return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned int flags)
{
    (void)edges;
    return cuStreamUpdateCaptureDependencies(stream, nodes, count, flags);
}
