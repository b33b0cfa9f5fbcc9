/* Stream capture: while one is open the gate stays open for this process.
 *
 * Calls that drain a GPU break a capture that is open anywhere in the process, so a revoke waits
 * for its end. A capture begins inside the gate, hence only while a lease is held.
 */
#include "shim/gate.h"
#include "shim/lock.h"
#include "shim/memory.h"
#include "shim/pace.h"
#include "shim/pool.h"
#include "shim/real.h"

/* Streams in which a capture began: destroying one of them ends its capture as well. Beyond this
 * many at a time (nobody has been seen with more than a few) that goes unnoticed. */
#define ORIGINS_MAX 64

static CUstream origins[ORIGINS_MAX];
static uint32_t origin_count;
static struct lock origins_lock;

static void add_origin(CUstream stream)
{
    LOCK_SCOPE(&origins_lock);
    if (origin_count < ORIGINS_MAX) {
        origins[origin_count++] = stream;
    }
}

static bool remove_origin(CUstream stream)
{
    LOCK_SCOPE(&origins_lock);
    for (uint32_t i = 0; i < origin_count; i++) {
        if (origins[i] == stream) {
            origins[i] = origins[--origin_count];
            return true;
        }
    }
    return false;
}

#define BEGIN_CAPTURE(name, parameters, arguments) \
    CUresult name parameters                       \
    {                                              \
        struct mw_slot *slot = gate_enter();       \
        CUresult result = REAL(name) arguments;    \
        if (result == CUDA_SUCCESS) {              \
            gate_capture_began();                  \
            add_origin(stream);                    \
        }                                          \
        gate_leave(slot);                          \
        return result;                             \
    }
/* An error may or may not have ended it: the stream tells. */
#define END_CAPTURE(name, is_capturing)                               \
    CUresult name(CUstream stream, CUgraph *graph)                    \
    {                                                                 \
        struct mw_slot *slot = gate_enter();                          \
        CUstreamCaptureStatus before = CU_STREAM_CAPTURE_STATUS_NONE; \
        CUstreamCaptureStatus after = CU_STREAM_CAPTURE_STATUS_NONE;  \
        REAL(is_capturing)(stream, &before);                          \
        CUresult result = REAL(name)(stream, graph);                  \
        if (before != CU_STREAM_CAPTURE_STATUS_NONE) {                \
            REAL(is_capturing)(stream, &after);                       \
            if (after == CU_STREAM_CAPTURE_STATUS_NONE) {             \
                gate_capture_ended();                                 \
                remove_origin(stream);                                \
            }                                                         \
        }                                                             \
        gate_leave(slot);                                             \
        memory_capture_ended();                                       \
        return result;                                                \
    }

BEGIN_CAPTURE(cuStreamBeginCapture, (CUstream stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
              (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph,
              (CUstream stream, CUgraph graph, const CUgraphNode *nodes,
               const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
              (stream, graph, nodes, edges, count, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz,
              (CUstream stream, CUgraph graph, const CUgraphNode *nodes,
               const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
              (stream, graph, nodes, edges, count, mode))
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph,
              (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
               CUgraphRecaptureCallback callback, void *user_data),
              (stream, mode, graph, callback, user_data))
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph_ptsz,
              (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
               CUgraphRecaptureCallback callback, void *user_data),
              (stream, mode, graph, callback, user_data))
END_CAPTURE(cuStreamEndCapture, cuStreamIsCapturing)
END_CAPTURE(cuStreamEndCapture_ptsz, cuStreamIsCapturing_ptsz)

static CUresult destroy(CUstream stream, CUresult (*real)(CUstream))
{
    bool captured = remove_origin(stream);
    pace_forget_stream(stream);
    pools_forget_stream(stream);
    CUresult result = real(stream);
    if (captured && result == CUDA_SUCCESS) {
        gate_capture_ended();
        memory_capture_ended();
    } else if (captured) {
        add_origin(stream);
    }
    return result;
}

CUresult cuStreamDestroy(CUstream stream) { return destroy(stream, REAL(cuStreamDestroy)); }

CUresult cuStreamDestroy_v2(CUstream stream) { return destroy(stream, REAL(cuStreamDestroy_v2)); }
