#include "shim/mem/peer_copy.h"

#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/peer_reach.h"

/* What a call is done on, if nothing is changed. */
struct place {
    CUcontext context;
    CUdevice device;
};

static bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static bool find_place(CUstream given, struct place *place)
{
    place->context = NULL;
    CUresult result = is_default(given) ? DRIVER(cuCtxGetCurrent)(&place->context)
                                        : DRIVER(cuStreamGetCtx)(given, &place->context);
    place->device = result == CUDA_SUCCESS && place->context ? peer_reach_device_of(place->context)
                                                             : CU_DEVICE_INVALID;
    return place->device >= 0 && place->device < 64;
}

/* ---- elsewhere, in the order of the stream ---- */

/* What is given to `later` from now on comes after all that `earlier` has; each in its own context. */
static CUresult follow(CUstream earlier, CUcontext its, CUstream later, CUcontext other)
{
    CUevent event = NULL;
    CUresult result = DRIVER(cuCtxPushCurrent_v2)(its);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuEventRecord)(event, earlier);
    }
    device_pop();
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuCtxPushCurrent_v2)(other);
    }
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuStreamWaitEvent)(later, event, 0);
        device_pop();
    }
    if (event) {
        DRIVER(cuEventDestroy_v2)(event); /* what waits for it goes on doing so */
    }
    return result;
}

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult leave(struct peer_copy *peer_copy, CUcontext context, struct place home,
                      CUstream given, CUstream *stream)
{
    CUstream other = NULL;
    CUresult result = stream ? CUDA_SUCCESS : DRIVER(cuStreamSynchronize)(given);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuCtxPushCurrent_v2)(context);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (stream) {
        result = DRIVER(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING);
        if (result == CUDA_SUCCESS) {
            result = follow(given, home.context, other, context);
        }
        if (result != CUDA_SUCCESS) {
            if (other) {
                DRIVER(cuStreamDestroy_v2)(other);
            }
            device_pop();
            return result;
        }
    }
    peer_copy->context = context;
    peer_copy->home = home.context;
    peer_copy->given = given;
    peer_copy->other = other;
    peer_copy->stream = stream;
    if (stream) {
        peer_copy->before = *stream;
        *stream = other;
    }
    return CUDA_SUCCESS;
}

/* A stream that records cannot be left: the driver says what it says to that. */
static bool go(struct peer_copy *peer_copy, CUcontext context, struct place home, CUstream given,
               CUstream *stream)
{
    if (is_capturing(given)) {
        return false;
    }
    peer_copy->result = leave(peer_copy, context, home, given, stream);
    return peer_copy->result != CUDA_SUCCESS;
}

void peer_copy_end(struct peer_copy *peer_copy, CUresult *result)
{
    CUresult ended;
    if (peer_copy->stream) {
        *peer_copy->stream = peer_copy->before;
        ended = follow(peer_copy->other, peer_copy->context, peer_copy->given, peer_copy->home);
        DRIVER(cuStreamDestroy_v2)(peer_copy->other); /* it ends when its work has */
    } else {
        ended = DRIVER(cuStreamSynchronize)(
            peer_copy->given == CU_STREAM_PER_THREAD ? peer_copy->given : NULL);
    }
    device_pop();
    if (*result == CUDA_SUCCESS) {
        *result = ended;
    }
}

bool peer_copy_single(struct peer_copy *peer_copy, CUdeviceptr address, CUstream given,
                      CUstream *stream)
{
    struct place home;
    if (!client_is_active() || !find_place(given, &home)) {
        return false;
    }
    CUcontext context = peer_reach_context(address, home.device);
    return context && go(peer_copy, context, home, given, stream);
}

/* ---- from GPU to GPU ---- */

bool peer_copy_linear(struct peer_copy *peer_copy, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                      CUstream given, CUstream *stream)
{
    struct place home;
    CUcontext to;
    CUcontext from;
    if (!bytes || !client_is_active() || !find_place(given, &home) ||
        !peer_reach_find_contexts(home.device, dst, src, &to, &from)) {
        return false;
    }
    if ((!to && !peer_reach_is_on_gpu(dst)) || (!from && !peer_reach_is_on_gpu(src))) {
        return go(peer_copy, to ? to : from, home, given, stream);
    }
    to = to ? to : home.context;
    from = from ? from : home.context;
    peer_copy->result = stream ? DRIVER(cuMemcpyPeerAsync)(dst, to, src, from, bytes, given)
                        : given == CU_STREAM_PER_THREAD
                            ? DRIVER(cuMemcpyPeer_ptds)(dst, to, src, from, bytes)
                            : DRIVER(cuMemcpyPeer)(dst, to, src, from, bytes);
    return true;
}

static bool lies_on_gpu(CUmemorytype type, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY ||
           (type == CU_MEMORYTYPE_UNIFIED && peer_reach_is_on_gpu(address));
}

bool peer_copy_3d(struct peer_copy *peer_copy, const CUDA_MEMCPY3D *copy, CUstream given,
                  CUstream *stream)
{
    struct place home;
    CUcontext to;
    CUcontext from;
    if (!copy || !client_is_active() || !find_place(given, &home) ||
        !peer_reach_find_contexts(
            home.device, peer_reach_address(copy->dstMemoryType, copy->dstDevice),
            peer_reach_address(copy->srcMemoryType, copy->srcDevice), &to, &from)) {
        return false;
    }
    if ((!to && !lies_on_gpu(copy->dstMemoryType, copy->dstDevice)) ||
        (!from && !lies_on_gpu(copy->srcMemoryType, copy->srcDevice))) {
        return go(peer_copy, to ? to : from, home, given, stream);
    }
    CUDA_MEMCPY3D_PEER peers;
    _Static_assert(sizeof(peers) == sizeof(*copy), "contexts stand in reserved words");
    __builtin_memcpy(&peers, copy, sizeof(peers));
    peers.dstContext = to ? to : home.context;
    peers.srcContext = from ? from : home.context;
    peer_copy->result = stream                          ? DRIVER(cuMemcpy3DPeerAsync)(&peers, given)
                        : given == CU_STREAM_PER_THREAD ? DRIVER(cuMemcpy3DPeer_ptds)(&peers)
                                                        : DRIVER(cuMemcpy3DPeer)(&peers);
    return true;
}

bool peer_copy_2d(struct peer_copy *peer_copy, const CUDA_MEMCPY2D *copy, CUstream given,
                  CUstream *stream)
{
    if (!copy) {
        return false;
    }
    CUDA_MEMCPY3D deep = {
        .srcXInBytes = copy->srcXInBytes,
        .srcY = copy->srcY,
        .srcMemoryType = copy->srcMemoryType,
        .srcHost = copy->srcHost,
        .srcDevice = copy->srcDevice,
        .srcArray = copy->srcArray,
        .srcPitch = copy->srcPitch,
        .dstXInBytes = copy->dstXInBytes,
        .dstY = copy->dstY,
        .dstMemoryType = copy->dstMemoryType,
        .dstHost = copy->dstHost,
        .dstDevice = copy->dstDevice,
        .dstArray = copy->dstArray,
        .dstPitch = copy->dstPitch,
        .WidthInBytes = copy->WidthInBytes,
        .Height = copy->Height,
        .Depth = 1,
    };
    return peer_copy_3d(peer_copy, &deep, given, stream);
}

bool peer_copy_batch(struct peer_copy *peer_copy, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                     const size_t *bytes, size_t count, size_t *failed, CUstream given)
{
    struct place home;
    bool crosses = false;
    if (!dsts || !srcs || !bytes || !client_is_active() || !find_place(given, &home)) {
        return false;
    }
    for (size_t i = 0; i < count && !crosses; i++) {
        crosses =
            peer_reach_context(dsts[i], home.device) || peer_reach_context(srcs[i], home.device);
    }
    peer_copy->result = CUDA_SUCCESS;
    for (size_t i = 0; crosses && i < count && peer_copy->result == CUDA_SUCCESS; i++) {
        struct peer_copy one = {.context = NULL};
        CUstream stream = given;
        peer_copy->result = peer_copy_linear(&one, dsts[i], srcs[i], bytes[i], given, &stream)
                                ? one.result
                                : DRIVER(cuMemcpyAsync)(dsts[i], srcs[i], bytes[i], stream);
        if (one.context) {
            peer_copy_end(&one, &peer_copy->result);
        }
        if (failed) {
            *failed = peer_copy->result == CUDA_SUCCESS ? SIZE_MAX : i;
        }
    }
    return crosses;
}
