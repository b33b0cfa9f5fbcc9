/* The entry points about captures that are open. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/capture.h"

static CUstreamCaptureStatus status_of(CUstream stream)
{
    return !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!status) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_capture_forbids_legacy(stream));
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
        *edges = NULL;
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
    size_t kept = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ? stream->captured_count : 0;
    CUgraphNode *all = malloc((kept + count + 1) * sizeof *all);
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
