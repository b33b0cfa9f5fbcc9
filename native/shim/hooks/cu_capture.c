/* Stream capture: it goes on over any number of hand-offs (docs/decisions/0016).
 *
 * Captured work does not run, and addresses stay what they are, so an open capture keeps no other
 * tenant waiting. The calls that it captures wait at the gate like all others. A capture begins
 * only with the lease, so that none begins while a GPU is drained.
 */
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/gate/stream_capture.h"
#include "shim/gate/streams.h"
#include "shim/mem/graph_memory.h"
#include "shim/mem/graph_reuse.h"
#include "shim/mem/release.h"
#include "shim/pool/pool.h"

#define PLAIN(stream) (stream)
#define OWN_STREAM(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

#define BEGIN_CAPTURE(name, flavour, mode, parameters, arguments) \
    CUresult name parameters                                      \
    {                                                             \
        struct mw_slot *slot = gate_enter();                      \
        streams_lock_to_capture();                                \
        gate_capture_began();                                     \
        streams_will_capture(flavour(stream));                    \
        CUresult result = DRIVER(name) arguments;                 \
        if (result == CUDA_SUCCESS) {                             \
            stream_capture_add(flavour(stream), mode);            \
        } else {                                                  \
            gate_capture_ended();                                 \
        }                                                         \
        lock_drop(&streams_lock);                                 \
        gate_leave(slot);                                         \
        return result;                                            \
    }
/* An error may or may not have ended the capture: the stream's state says which. */
#define END_CAPTURE(name, flavour, is_capturing)                     \
    CUresult name(CUstream stream, CUgraph *graph)                   \
    {                                                                \
        CUstreamCaptureStatus after = CU_STREAM_CAPTURE_STATUS_NONE; \
        CUgraph captured = NULL;                                     \
        lock_take(&streams_lock);                                    \
        CUresult result = DRIVER(name)(stream, graph);               \
        DRIVER(is_capturing)(stream, &after);                        \
        if (after == CU_STREAM_CAPTURE_STATUS_NONE) {                \
            stream_capture_remove(flavour(stream), &captured);       \
        }                                                            \
        lock_drop(&streams_lock);                                    \
        if (captured) {                                              \
            graph_reuse_forget(captured);                            \
        }                                                            \
        graph_memory_end_capture(captured, result ? NULL : *graph);  \
        release_after_capture();                                     \
        return result;                                               \
    }
/* A stream that waits for captured work takes part in the capture from then on. */
#define WAIT_EVENT(name, flavour)                                         \
    CUresult name(CUstream stream, CUevent event, unsigned int flags)     \
    {                                                                     \
        if (__builtin_expect(!gate_in_capture() || gate_is_alone(), 1)) { \
            return DRIVER(name)(stream, event, flags);                    \
        }                                                                 \
        LOCK_SCOPE(&streams_lock);                                        \
        streams_will_capture(flavour(stream));                            \
        return DRIVER(name)(stream, event, flags);                        \
    }

#define TO_GRAPH                                                                             \
    (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, \
     size_t count, CUstreamCaptureMode mode)
#define GIVEN (stream, graph, nodes, edges, count, mode)
#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL

BEGIN_CAPTURE(cuStreamBeginCapture, PLAIN, GLOBAL, (CUstream stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, OWN_STREAM, GLOBAL, (CUstream stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_v2, PLAIN, mode, (CUstream stream, CUstreamCaptureMode mode),
              (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, OWN_STREAM, mode,
              (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, PLAIN, mode, TO_GRAPH, GIVEN)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, OWN_STREAM, mode, TO_GRAPH, GIVEN)
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph, PLAIN, mode,
              (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
               CUgraphRecaptureCallback callback, void *user_data),
              (stream, mode, graph, callback, user_data))
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph_ptsz, OWN_STREAM, mode,
              (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
               CUgraphRecaptureCallback callback, void *user_data),
              (stream, mode, graph, callback, user_data))
END_CAPTURE(cuStreamEndCapture, PLAIN, cuStreamIsCapturing)
END_CAPTURE(cuStreamEndCapture_ptsz, OWN_STREAM, cuStreamIsCapturing_ptsz)
WAIT_EVENT(cuStreamWaitEvent, PLAIN)
WAIT_EVENT(cuStreamWaitEvent_ptsz, OWN_STREAM)

static CUresult destroy(CUstream stream, CUresult (*real)(CUstream))
{
    lock_take(&streams_lock);
    queue_depth_forget_stream(stream);
    pools_forget_stream(stream);
    CUresult result = real(stream);
    CUgraph graph = NULL;
    bool captured = result == CUDA_SUCCESS && stream_capture_remove(stream, &graph);
    if (result == CUDA_SUCCESS) {
        streams_remove(stream);
    }
    lock_drop(&streams_lock);
    if (captured) {
        graph_reuse_forget(graph);
        graph_memory_end_capture(graph, NULL);
        release_after_capture();
    }
    return result;
}

CUresult cuStreamDestroy(CUstream stream) { return destroy(stream, DRIVER(cuStreamDestroy)); }

CUresult cuStreamDestroy_v2(CUstream stream) { return destroy(stream, DRIVER(cuStreamDestroy_v2)); }
