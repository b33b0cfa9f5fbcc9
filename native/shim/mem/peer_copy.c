#include "shim/mem/peer_copy.h"

#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/mem/extent.h"
#include "shim/mem/peer_access.h"

/* What a call is done on, if nothing is changed. */
struct place {
    CUcontext context;
    CUdevice device;
};

static bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static CUdevice device_of(CUcontext context)
{
    CUdevice device = CU_DEVICE_INVALID;
    if (DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS) {
        DRIVER(cuCtxGetDevice)(&device);
        device_pop();
    }
    return device;
}

static bool find_place(CUstream given, struct place *place)
{
    place->context = NULL;
    CUresult result = is_default(given) ? DRIVER(cuCtxGetCurrent)(&place->context)
                                        : DRIVER(cuStreamGetCtx)(given, &place->context);
    place->device =
        result == CUDA_SUCCESS && place->context ? device_of(place->context) : CU_DEVICE_INVALID;
    return place->device >= 0 && place->device < 64;
}

/* The context of an allocation of ours that a device has no access to; NULL: it has, or the memory is none of
 * ours. That of pools and what the program mapped itself is closed without us, too. */
static CUcontext beyond(CUdeviceptr address, CUdevice device)
{
    LOCK_SCOPE(&extent_lock);
    const struct extent *extent = address ? extent_find(address) : NULL;
    if (!extent || extent->ops->kind != EXTENT_PLACED || extent->use == EXTENT_OF_POOL) {
        return NULL;
    }
    struct device *owner = extent->device;
    if (owner->ordinal == device || owner->peers >> device & 1) {
        return NULL;
    }
    owner->crossed |= 1ull << device; /* whoever frees its memory waits for that one, too */
    return extent->context;
}

static bool is_on_gpu(CUdeviceptr address)
{
    unsigned int type = 0;
    unsigned int managed = 0;
    return DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE &&
           (DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) !=
                CUDA_SUCCESS ||
            !managed);
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
    CUcontext context = beyond(address, home.device);
    return context && go(peer_copy, context, home, given, stream);
}

/* ---- from GPU to GPU ---- */

/* Contexts from which each side can be reached. False: both can be from where the copy is done anyway. */
static bool find_ends(const struct place *home, CUdeviceptr dst, CUdeviceptr src, CUcontext *to,
                      CUcontext *from)
{
    *to = beyond(dst, home->device);
    *from = beyond(src, home->device);
    return *to || *from;
}

bool peer_copy_linear(struct peer_copy *peer_copy, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                      CUstream given, CUstream *stream)
{
    struct place home;
    CUcontext to;
    CUcontext from;
    if (!bytes || !client_is_active() || !find_place(given, &home) ||
        !find_ends(&home, dst, src, &to, &from)) {
        return false;
    }
    if ((!to && !is_on_gpu(dst)) || (!from && !is_on_gpu(src))) {
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

static CUdeviceptr address_of(CUmemorytype type, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? address : 0;
}

static bool lies_on_gpu(CUmemorytype type, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY ||
           (type == CU_MEMORYTYPE_UNIFIED && is_on_gpu(address));
}

bool peer_copy_3d(struct peer_copy *peer_copy, const CUDA_MEMCPY3D *copy, CUstream given,
                  CUstream *stream)
{
    struct place home;
    CUcontext to;
    CUcontext from;
    if (!copy || !client_is_active() || !find_place(given, &home) ||
        !find_ends(&home, address_of(copy->dstMemoryType, copy->dstDevice),
                   address_of(copy->srcMemoryType, copy->srcDevice), &to, &from)) {
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
        crosses = beyond(dsts[i], home.device) || beyond(srcs[i], home.device);
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

/* ---- nodes of graphs ---- */

static struct device *owner_of(CUdeviceptr address)
{
    LOCK_SCOPE(&extent_lock);
    const struct extent *extent = extent_find(address);
    return extent ? extent->device : NULL;
}

CUcontext peer_copy_node_context(CUcontext named, CUdeviceptr dst, CUdeviceptr src)
{
    struct place home = {.context = named};
    CUcontext to;
    CUcontext from;
    if (!devices_several || !client_is_active() || !named) {
        return named;
    }
    home.device = device_of(named);
    if (home.device < 0 || home.device >= 64 || !find_ends(&home, dst, src, &to, &from)) {
        return named;
    }
    if ((to || (dst && is_on_gpu(dst))) && (from || (src && is_on_gpu(src)))) {
        /* A node names one context, so that one gets access to both, if the GPUs can have that. */
        if (to) {
            peer_access_allow(owner_of(dst), home.device, (struct opener){0});
        }
        if (from) {
            peer_access_allow(owner_of(src), home.device, (struct opener){0});
        }
        return named;
    }
    return to ? to : from;
}

CUcontext peer_copy_node_context_3d(CUcontext named, const CUDA_MEMCPY3D *copy)
{
    return copy ? peer_copy_node_context(named, address_of(copy->dstMemoryType, copy->dstDevice),
                                         address_of(copy->srcMemoryType, copy->srcDevice))
                : named;
}

static CUcontext *context_of(CUgraphNodeParams *node)
{
    return !node                                     ? NULL
           : node->type == CU_GRAPH_NODE_TYPE_MEMCPY ? &node->memcpy.copyCtx
           : node->type == CU_GRAPH_NODE_TYPE_MEMSET ? &node->memset.ctx
                                                     : NULL;
}

CUcontext peer_copy_node(CUgraphNodeParams *node)
{
    CUcontext *context = context_of(node);
    CUcontext before = context ? *context : NULL;
    if (before && devices_several) {
        *context = node->type == CU_GRAPH_NODE_TYPE_MEMCPY
                       ? peer_copy_node_context_3d(before, &node->memcpy.copyParams)
                       : peer_copy_node_context(before, node->memset.dst, 0);
    }
    return before;
}

void peer_copy_node_end(CUgraphNodeParams *node, CUcontext before)
{
    CUcontext *context = context_of(node);
    if (context) {
        *context = before;
    }
}
