/* Streams that are being captured. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

RT_CALL(RT_SZ(cudaStreamBeginCapture), CUstream stream, CUstreamCaptureMode mode)
{
    RT_PASS(rt_stream_driver.cuStreamBeginCapture(stream, mode));
}

RT_CALL(RT_SZ(cudaStreamBeginCaptureToGraph), CUstream stream, CUgraph graph,
        const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
        CUstreamCaptureMode mode)
{
    RT_PASS(rt_stream_driver.cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode));
}

RT_CALL(RT_SZ(cudaStreamEndCapture), CUstream stream, CUgraph *graph)
{
    RT_PASS(rt_stream_driver.cuStreamEndCapture(stream, graph));
}

RT_CALL(RT_SZ(cudaStreamIsCapturing), CUstream stream, CUstreamCaptureStatus *status)
{
    RT_PASS(rt_stream_driver.cuStreamIsCapturing(stream, status));
}

static cudaError_t info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                        CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges,
                        size_t *count)
{
    RT_PASS(
        rt_stream_driver.cuStreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count));
}

static cudaError_t update(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges,
                          size_t count, unsigned int flags)
{
    RT_PASS(rt_stream_driver.cuStreamUpdateCaptureDependencies(stream, nodes, edges, count, flags));
}

#if CUDART_VERSION < 13000
RT_CALL(RT_SZ(cudaStreamGetCaptureInfo), CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id)
{
    return info(stream, status, id, NULL, NULL, NULL, NULL);
}

RT_CALL(RT_SZ(cudaStreamGetCaptureInfo_v2), CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    return info(stream, status, id, graph, nodes, NULL, count);
}

RT_CALL(RT_SZ(cudaStreamGetCaptureInfo_v3), CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges,
        size_t *count)
{
    return info(stream, status, id, graph, nodes, edges, count);
}

RT_CALL(RT_SZ(cudaStreamUpdateCaptureDependencies), CUstream stream, CUgraphNode *nodes,
        size_t count, unsigned int flags)
{
    return update(stream, nodes, NULL, count, flags);
}
#else
RT_CALL(RT_SZ(cudaStreamGetCaptureInfo), CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges,
        size_t *count)
{
    return info(stream, status, id, graph, nodes, edges, count);
}

RT_CALL(RT_SZ(cudaStreamUpdateCaptureDependencies), CUstream stream, CUgraphNode *nodes,
        const CUgraphEdgeData *edges, size_t count, unsigned int flags)
{
    return update(stream, nodes, edges, count, flags);
}
#endif
