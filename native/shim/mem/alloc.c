/* The walk of cuMemAlloc through the files of the shim stands in native/shim/README.md. */
#include "shim/mem/alloc.h"

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/gate/gate.h"
#include "shim/mem/accounting.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/managed.h"
#include "shim/mem/oom_retry.h"
#include "shim/mem/release.h"
#include "shim/mem/slab.h"
#include "shim/mem/slab_request.h"
#include "shim/mem/upcalls.h"
#include "shim/mem/vmm_handle.h"
#include "shim/mem/zero_fill.h"

static _Atomic uint32_t mode = MW_MEMORY_SWAP;

/* Into the table, where its context may take it along at any moment: `keep` notices that. */
static int enter(struct extent *extent)
{
    extent->making = true;
    extent->orphan = false;
    return extent_table_insert(extent);
}

/* What could not be backed goes again. */
static void unmake(struct extent *extent)
{
    lock_take(&extent_lock);
    extent_retire(extent);
    lock_drop(&extent_lock);
    release_extent_wholly(extent);
}

/* With extent_lock: the thread that made an extent is through with it. If it has lost its context, it is
 * retiring, and the caller releases it. */
static CUresult keep(struct extent *extent)
{
    bool lost =
        extent->orphan || (extent->context && !device_has_context(extent->device, extent->context));
    extent->making = false;
    if (lost) {
        extent_retire(extent);
    }
    return lost ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

/* The device stays attached while the agent is asked; what is charged keeps it so from then on. */
static CUresult charge(struct device *device, uint64_t bytes, uint32_t flags)
{
    if (!device_keep_attached(device)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    CUresult result = accounting_charge(device, bytes, flags);
    device_created(device);
    if (result != CUDA_SUCCESS) {
        accounting_detach_unused(device);
    }
    return result;
}

bool alloc_is_allowed(struct device *device, uint64_t bytes)
{
    if (bytes <= device_limit(device)) {
        return true;
    }
    if (charge(device, bytes, 0) == CUDA_SUCCESS) {
        LOCK_SCOPE(&extent_lock); /* it asks again for what is really taken */
        accounting_release(device, bytes, 0, 0);
    }
    return bytes <= device_limit(device); /* it may have risen meanwhile */
}

/* An extent that was freed before, of the same size: its memory has only to be mapped again. NULL: none.
 * The device stays attached until it counts. */
static struct extent *reuse(struct device *device, uint64_t bytes, enum cut cut)
{
    if (!atomic_load(&credits_granted) || !device_keep_attached(device)) {
        return NULL;
    }
    struct mw_slot *slot =
        gate_enter(); /* cached memory goes before the agent is told that nothing runs */
    lock_take(&extent_lock);
    struct extent *extent =
        credit_reuse(device, extent_span(bytes), extent_chunks(device, bytes, cut));
    if (extent) {
        extent->bytes = bytes;
        extent->sequence = extent_next_sequence();
        extent->retiring = false;
        DRIVER(cuCtxGetCurrent)(&extent->context);
    }
    if (extent && enter(extent) != 0) {
        accounting_release(device, extent->span, extent_destroy(extent), 0);
        extent = NULL;
    }
    lock_drop(&extent_lock);
    if (extent && extent_map_in_steps(extent) != CUDA_SUCCESS) {
        unmake(extent);
        extent = NULL;
    }
    if (extent) {
        zero_fill(extent);
    }
    gate_leave(slot);
    device_created(device);
    return extent;
}

/* `attach` is what cuMemAllocManaged is called with; 0: chunks of ours. */
static CUresult make(struct device *device, uint64_t bytes, unsigned attach, enum cut cut,
                     struct extent **made)
{
    bool managed = attach != 0;
    struct extent *extent = managed ? NULL : reuse(device, bytes, cut);
    if (extent) {
        *made = extent;
        return CUDA_SUCCESS;
    }
    uint64_t step = managed ? MANAGED_PAGE : GRANULE;
    uint64_t span = (bytes + step - 1) / step * step;
    uint32_t flags = managed ? MW_ALLOC_MANAGED : 0;
    CUresult result = charge(device, span, flags);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = managed ? managed_make(&extent, device, bytes, attach)
                     : extent_make(&extent, device, bytes, cut);
    lock_take(&extent_lock);
    if (result != CUDA_SUCCESS) {
        accounting_release(device, span, 0, flags);
    } else if (enter(extent) != 0) {
        accounting_release(device, span, extent_destroy(extent), flags);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    lock_drop(&extent_lock);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = managed ? CUDA_SUCCESS : oom_retry_map(extent);
    if (result != CUDA_SUCCESS) {
        unmake(extent);
        return result;
    }
    *made = extent;
    return CUDA_SUCCESS;
}

CUresult alloc_extent(struct device *device, uint64_t bytes, struct extent **made)
{
    return make(device, bytes, atomic_load(&mode) == MW_MEMORY_MANAGED ? CU_MEM_ATTACH_GLOBAL : 0,
                CUT_FINE, made);
}

/* With extent_lock: a slab of the extent that was made for the request, and the request's part of it. */
static CUresult adopt_slab(const struct slab_request *request, struct extent *extent,
                           CUdeviceptr *pointer)
{
    CUresult result = keep(extent);
    if (result == CUDA_SUCCESS && slab_adopt(extent) != 0) {
        extent_retire(extent);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (result == CUDA_SUCCESS) {
        slab_take(request->device, request->context, request->managed, request->bytes, pointer);
    }
    return result;
}

/* Makes a slab while other threads wait for it. Without memory for one, small memory may have been freed since. */
static CUresult make_slab(struct device *device, struct slab_request *request, unsigned attach,
                          CUdeviceptr *pointer)
{
    struct extent *extent = NULL;
    struct extent *lost = NULL;
    CUresult result = make(device, GRANULE, attach, CUT_PLAIN, &extent);
    lock_take(&extent_lock);
    if (extent) {
        result = adopt_slab(request, extent, pointer);
        lost = result == CUDA_SUCCESS ? NULL : extent;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY &&
        slab_take(device, request->context, request->managed, request->bytes, pointer)) {
        result = CUDA_SUCCESS;
    }
    slab_request_end(request, result);
    lock_drop(&extent_lock);
    if (lost) {
        release_extent_wholly(lost);
        accounting_detach_unused(device);
    }
    return result;
}

static CUresult allocate_small(struct device *device, CUdeviceptr *pointer, size_t bytes,
                               unsigned attach)
{
    struct slab_request request = {.device = device, .managed = attach != 0, .bytes = bytes};
    DRIVER(cuCtxGetCurrent)(&request.context);
    switch (slab_request_take(&request, pointer)) {
    case SLAB_TAKEN:
        return CUDA_SUCCESS;
    case SLAB_REFUSED:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return make_slab(device, &request, attach, pointer);
    }
}

static CUresult keep_large(struct device *device, struct extent *extent, CUdeviceptr *pointer)
{
    lock_take(&extent_lock);
    CUdeviceptr base = extent->base;
    CUresult result = keep(extent);
    lock_drop(&extent_lock);
    if (result == CUDA_SUCCESS) {
        *pointer = base;
    } else {
        release_extent_wholly(extent);
        accounting_detach_unused(device);
    }
    return result;
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, unsigned attach, bool alone)
{
    struct device *device;
    struct extent *extent;
    CUresult result = device_check();
    if (result == CUDA_SUCCESS && (!pointer || bytes == 0)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        result = device_current(&device);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!alloc_is_allowed(device, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (bytes <= SLAB_LARGEST && !alone) {
        result = allocate_small(device, pointer, bytes, attach);
        return result == CUDA_ERROR_OUT_OF_MEMORY && mem_upcalls.reclaim(device)
                   ? allocate_small(device, pointer, bytes, attach)
                   : result;
    }
    result = make(device, bytes, attach, CUT_PLAIN, &extent);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && mem_upcalls.reclaim(device)) {
        result = make(device, bytes, attach, CUT_PLAIN, &extent);
    }
    return result == CUDA_SUCCESS ? keep_large(device, extent, pointer) : result;
}

CUresult alloc_device(CUdeviceptr *pointer, size_t bytes)
{
    unsigned attach = atomic_load(&mode) == MW_MEMORY_MANAGED ? CU_MEM_ATTACH_GLOBAL : 0;
    return allocate(pointer, bytes, attach, false);
}

CUresult alloc_managed(CUdeviceptr *pointer, size_t bytes, unsigned attach)
{
    return attach ? allocate(pointer, bytes, attach, true) : CUDA_ERROR_INVALID_VALUE;
}

void alloc_set_mode(uint32_t wanted) { atomic_store(&mode, wanted); }

uint64_t alloc_bytes(const struct device *device)
{
    LOCK_SCOPE(&extent_lock);
    return device->allocated_bytes;
}

void alloc_freeze(void) { lock_take(&extent_lock); }

void alloc_thaw(void) { lock_drop(&extent_lock); }

void alloc_after_fork(void)
{
    extent_after_fork();
    extent_table_after_fork();
    vmm_handle_after_fork();
    slab_after_fork();
    slab_request_after_fork();
    credits_after_fork();
    release_after_fork();
}
