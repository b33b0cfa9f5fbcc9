#include "simgpu/graph.h"
#include "simgpu/capture.h"

#define CALL(name, parameters)                                            \
    CUresult name parameters                                              \
    {                                                                     \
        CUresult entered = sg_enter();                                    \
        return entered ? entered : CUDA_ERROR_NOT_SUPPORTED;              \
    }
#define UNUSED __attribute__((unused))
CALL(cuGraphLaunch, (CUgraphExec e UNUSED, CUstream s UNUSED))
CALL(cuGraphUpload, (CUgraphExec e UNUSED, CUstream s UNUSED))
CALL(cuGraphInstantiateWithParams, (CUgraphExec *e UNUSED, CUgraph g UNUSED, CUDA_GRAPH_INSTANTIATE_PARAMS *p UNUSED))
CALL(cuStreamBeginCapture, (CUstream s UNUSED))
CALL(cuStreamBeginCapture_v2, (CUstream s UNUSED, CUstreamCaptureMode m UNUSED))
CALL(cuStreamEndCapture, (CUstream s UNUSED, CUgraph *g UNUSED))
CUresult cuStreamIsCapturing(CUstream s UNUSED, CUstreamCaptureStatus *status)
{
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo(CUstream s UNUSED, CUstreamCaptureStatus *status, cuuint64_t *id UNUSED)
{
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s UNUSED, CUstreamCaptureStatus *status, cuuint64_t *id UNUSED,
                                   CUgraph *g UNUSED, const CUgraphNode **d UNUSED, size_t *n UNUSED)
{
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v3(CUstream s UNUSED, CUstreamCaptureStatus *status, cuuint64_t *id UNUSED,
                                   CUgraph *g UNUSED, const CUgraphNode **d UNUSED, const CUgraphEdgeData **e UNUSED, size_t *n UNUSED)
{
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static __thread CUstreamCaptureMode now;
    CUstreamCaptureMode before = now;
    now = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
void sg_graph_exec_ref(CUgraphExec exec UNUSED) {}
void sg_graph_exec_unref(CUgraphExec exec UNUSED) {}
void sg_graph_execute(CUgraphExec exec UNUSED, CUstream stream UNUSED, uint64_t ready_ns UNUSED) {}
void sg_graph_count(CUgraphExec exec UNUSED) {}
CUresult sg_capture_op(CUstream stream UNUSED, struct sg_op *op UNUSED) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sg_capture_refuse(CUstream stream UNUSED, CUresult why) { return why; }
CUresult sg_capture_forbids(void) { return CUDA_SUCCESS; }
CUresult sg_capture_wait(CUstream stream UNUSED, struct sg_record *record UNUSED) { return CUDA_SUCCESS; }
CUresult sg_capture_record(CUstream stream UNUSED, struct sg_record *record UNUSED) { return CUDA_SUCCESS; }
void sg_capture_unref(struct sg_capture *capture UNUSED) {}
CUresult sg_capture_forbids_legacy(CUstream stream UNUSED) { return CUDA_SUCCESS; }
void sg_capture_abandon(CUstream stream UNUSED) {}
