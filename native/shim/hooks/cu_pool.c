/* Memory pools and allocation in the order of streams, as programs see them. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/address_info.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/graph_reuse.h"
#include "shim/mem/peer_access.h"
#include "shim/mem/release.h"
#include "shim/mem/unevictable.h"
#include "shim/pool/pool.h"
#include "shim/pool/pool_alloc.h"
#include "shim/pool/trim.h"

#define PLAIN(stream) (stream)
#define OWN_STREAM(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* In a stream that captures, allocating and freeing become nodes of a graph, which only the driver
 * can make. */
static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gate_in_capture() && DRIVER(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The pool that a stream's device allocates from. */
static CUresult current_pool(CUstream stream, CUmemoryPool *pool)
{
    CUdevice device;
    CUcontext current = NULL;
    CUcontext context = NULL;
    CUresult result = DRIVER(cuCtxGetCurrent)(&current);
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) {
        result = DRIVER(cuStreamGetCtx)(stream, &context);
    }
    bool pushed = result == CUDA_SUCCESS && context && context != current &&
                  DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuCtxGetDevice)(&device);
    }
    if (pushed) {
        device_pop();
    }
    return result == CUDA_SUCCESS ? DRIVER(cuDeviceGetMemPool)(pool, device) : result;
}

/* ---- allocating and freeing ---- */

#define POOL_CALL "cuMemAllocFromPoolAsync"

/* What the agent knows of an allocation. */
enum told {
    TOLD_BYTES, /* how many they are */
    TOLD_GRAPH, /* the same, for the graph that is captured */
    TOLD_PIN,   /* they are of a pool that is not known here, so that it was asked for a pin */
    TOLD_NOT,   /* the driver does not know the pool either: its answer is the program's */
};

static bool is_pool(CUmemoryPool handle)
{
    cuuint64_t value;
    struct mw_slot *slot = gate_enter();
    CUresult result =
        DRIVER(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    gate_leave(slot);
    return result == CUDA_SUCCESS;
}

/* What the driver allocates itself: for a graph, or from a pool that others may see. */
static CUresult expect(CUmemoryPool handle, CUstream stream, size_t bytes, enum told *told,
                       struct graph_part **part)
{
    struct device *device;
    bool captured = is_captured(stream);
    CUresult result = captured ? device_current(&device) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (captured) {
        *told = TOLD_GRAPH;
        return graph_reuse_begin(stream, device, bytes, part);
    }
    struct meter *meter = unevictable_find_meter(handle, CU_DEVICE_INVALID);
    *told = meter ? TOLD_BYTES : is_pool(handle) ? TOLD_PIN : TOLD_NOT;
    if (meter) {
        return unevictable_expect(meter, bytes);
    }
    return *told == TOLD_PIN ? client_pin_begin(POOL_CALL) : CUDA_SUCCESS;
}

static void end_told(enum told told, CUresult result, struct graph_part *part,
                     const CUdeviceptr *pointer)
{
    if (told == TOLD_GRAPH) {
        graph_reuse_end(part, result == CUDA_SUCCESS, result == CUDA_SUCCESS ? *pointer : 0);
    } else if (told == TOLD_PIN) {
        client_pin_end(result == CUDA_SUCCESS);
    } else if (told == TOLD_NOT && result == CUDA_SUCCESS) {
        client_report_pinned(POOL_CALL);
    }
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    CUmemoryPool handle = NULL;
    struct pool *pool = NULL;
    if (client_is_active() && !is_captured(stream)) {
        CUresult result = device_check();
        if (result == CUDA_SUCCESS) {
            result = current_pool(stream, &handle);
        }
        if (result != CUDA_SUCCESS) {
            return result;
        }
        pool = pool_of(handle);
    }
    if (pool) {
        return pool_allocate(pool, pointer, bytes, stream);
    }
    enum told told = TOLD_BYTES;
    struct graph_part *part = NULL;
    CUresult result =
        client_is_active() ? expect(handle, stream, bytes, &told, &part) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    result = DRIVER(cuMemAllocAsync)(pointer, bytes, stream);
    gate_leave(slot);
    end_told(told, result, part, pointer);
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
    return allocate(ptr, bytes, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
    return allocate(ptr, bytes, OWN_STREAM(stream));
}

static CUresult allocate_from(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle,
                              CUstream stream)
{
    struct pool *pool = client_is_active() && !is_captured(stream) ? pool_of(handle) : NULL;
    if (pool) {
        return pool_allocate(pool, pointer, bytes, stream);
    }
    enum told told = TOLD_BYTES;
    struct graph_part *part = NULL;
    CUresult result =
        client_is_active() ? expect(handle, stream, bytes, &told, &part) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    result = DRIVER(cuMemAllocFromPoolAsync)(pointer, bytes, handle, stream);
    gate_leave(slot);
    end_told(told, result, part, pointer);
    return result;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return allocate_from(ptr, bytes, pool, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
                                      CUstream stream)
{
    return allocate_from(ptr, bytes, pool, OWN_STREAM(stream));
}

static CUresult free_in(CUdeviceptr pointer, CUstream stream)
{
    CUresult result;
    bool captured = client_is_active() && is_captured(stream);
    if (client_is_active() && pointer && !captured) {
        if (pool_free(pointer, stream, false, &result)) {
            return result;
        }
        if (address_info_range(pointer, NULL,
                               NULL)) { /* cuMemAlloc's, which may be freed in this way, too */
            CUcontext context;
            result = DRIVER(cuStreamGetCtx)(stream, &context);
            if (result != CUDA_SUCCESS || release_address(pointer, &result)) {
                return result;
            }
        }
    }
    struct mw_slot *slot = gate_enter();
    result = DRIVER(cuMemFreeAsync)(pointer, stream);
    gate_leave(slot);
    if (captured && result == CUDA_SUCCESS) {
        graph_reuse_freed(stream, pointer);
    }
    trim_note_free();
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) { return free_in(ptr, stream); }

CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
    return free_in(ptr, OWN_STREAM(stream));
}

/* ---- pools ---- */

static bool is_on_device(const CUmemPoolProps *props)
{
    return props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
           props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static bool is_ours(const CUmemPoolProps *props)
{
    return is_on_device(props) && props->handleTypes == CU_MEM_HANDLE_TYPE_NONE;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *pool_props)
{
    CUresult result = DRIVER(cuMemPoolCreate)(pool, pool_props);
    if (result != CUDA_SUCCESS || !client_is_active()) {
        return result;
    }
    if (is_ours(pool_props)) {
        return pool_add(*pool, pool_props->location.id, pool_props->maxSize);
    }
    struct device *device =
        is_on_device(pool_props) ? device_look_up(pool_props->location.id) : NULL;
    if (device) {
        unevictable_meter(*pool, device);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct meter *meter =
        client_is_active() && pool ? unevictable_find_meter(pool, CU_DEVICE_INVALID) : NULL;
    if (meter) {
        DRIVER(cuMemPoolTrimTo)(pool, 0);
        unevictable_settle(meter);
    }
    CUresult result = DRIVER(cuMemPoolDestroy)(pool);
    if (result == CUDA_SUCCESS && client_is_active()) {
        pool_remove(pool);
        peer_access_forget(pool);
        unevictable_end_meter(pool);
    }
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep)
{
    struct pool *ours = client_is_active() ? pool_of(pool) : NULL;
    if (ours) {
        trim_pool(ours, min_bytes_to_keep);
    }
    CUresult result = DRIVER(cuMemPoolTrimTo)(pool, min_bytes_to_keep);
    struct meter *meter = client_is_active() && pool && !ours
                              ? unevictable_find_meter(pool, CU_DEVICE_INVALID)
                              : NULL;
    if (meter) {
        unevictable_settle(meter);
    }
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct pool *ours = client_is_active() ? pool_of(pool) : NULL;
    CUresult result = DRIVER(cuMemPoolGetAttribute)(pool, attr, value);
    if (result == CUDA_SUCCESS && ours) {
        pool_get(ours, attr, value);
    }
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct pool *ours = client_is_active() ? pool_of(pool) : NULL;
    CUresult result = DRIVER(cuMemPoolSetAttribute)(pool, attr, value);
    if (result == CUDA_SUCCESS && ours) {
        pool_set(ours, attr, value);
    }
    return result;
}

/* ---- pools that other processes can see ---- */

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
    struct mw_slot *slot = gate_enter();
    CUresult result = DRIVER(cuMemPoolExportPointer)(data, pointer);
    gate_leave(slot);
    client_report_shared(result == CUDA_SUCCESS ? MW_SHARED_EXPORTED : 0);
    return result;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool,
                                CUmemPoolPtrExportData *data)
{
    struct mw_slot *slot = gate_enter();
    CUresult result = DRIVER(cuMemPoolImportPointer)(pointer, pool, data);
    gate_leave(slot);
    client_report_shared(result == CUDA_SUCCESS ? MW_SHARED_IMPORTED : 0);
    return result;
}
