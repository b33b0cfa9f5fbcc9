#include "shim/mem/alloc.h"

#include <stdlib.h>
#include <time.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"
#include "shim/gate/streams.h"
#include "shim/ipc/export.h"
#include "shim/ipc/import.h"
#include "shim/mem/accounting.h"
#include "shim/mem/credit.h"
#include "shim/mem/extent.h"
#include "shim/mem/free_cache.h"
#include "shim/mem/managed.h"
#include "shim/mem/oom_retry.h"
#include "shim/mem/peer_access.h"
#include "shim/mem/slab.h"
#include "shim/mem/vmm_handle.h"
#include "shim/mem/vmm_mappings.h"
#include "shim/pool/pool.h"

/* How long an allocation that the agent admitted waits for memory that the driver still counts
 * as used: that of a process killed just now, say. On a busy machine that takes seconds, and who is
 * told that there is none gives up for good. */
#define PATIENCE_NS 15000000000ull
/* What a killed program had comes back by itself; what drivers have taken for code does not. */
#define ASK_AFTER_NS 500000000ull
#define NOTHING ((CUdeviceptr)8) /* in a page that is never mapped */
#define MAPPED_AT_ONCE 16        /* chunks, until others get the lock */

static _Atomic uint32_t mode = MW_MEMORY_SWAP;

/* What is to be freed once no capture is open: waiting for the GPU would break the capture, and
 * freeing without having waited would take memory away from under running work. */
struct later {
    struct later *next;
    CUdeviceptr pointer;
    CUcontext context;
};
static struct later *later;

static CUresult put_off(CUdeviceptr pointer, CUcontext context)
{
    CUdeviceptr base = 0;
    size_t bytes;
    if (!address_info_range(pointer, &base, &bytes) || base != pointer) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct later *made = malloc(sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    LOCK_SCOPE(&extent_lock);
    for (struct later *each = later; each; each = each->next) {
        if (each->pointer == pointer) {
            free(made);
            return CUDA_ERROR_INVALID_VALUE; /* freed twice */
        }
    }
    *made = (struct later){later, pointer, context};
    later = made;
    return CUDA_SUCCESS;
}

/* With extent_lock held: those in an extent that goes are gone with it. */
static void drop_later(const struct extent *extent)
{
    for (struct later **at = &later; *at;) {
        struct later *each = *at;
        if (each->pointer >= extent->base && each->pointer < extent_end(extent)) {
            *at = each->next;
            free(each);
        } else {
            at = &each->next;
        }
    }
}

static void discard(struct extent *extent, bool may_keep)
{
    struct device *device = extent->device;
    extent_retire(extent);
    uint64_t charged = extent->span - extent->decommitted_bytes;
    struct ipc_export *exports = ipc_export_take(extent);
    uint32_t flags = extent_charge_flags(extent);
    drop_later(extent);
    extent_remove(extent);
    if (may_keep && !exports && credit_keep(extent)) {
        return;
    }
    accounting_release(device, charged, extent_destroy(extent), flags);
    ipc_export_end(exports);
}

void alloc_discard(struct extent *extent) { discard(extent, true); }

/* The lock is free between steps: mapping many chunks takes long, and others free memory. */
static CUresult back_in_steps(struct extent *extent)
{
    CUresult result;
    bool whole = false;
    lock_take(&extent_lock);
    extent_hold_moves(extent);
    do {
        result = extent_map(extent, MAPPED_AT_ONCE, &whole);
        lock_drop(&extent_lock);
        lock_take(&extent_lock);
    } while (result == CUDA_SUCCESS && !whole);
    extent_release_moves(extent);
    lock_drop(&extent_lock);
    return result;
}

static CUresult gave_up(const struct device *device)
{
    static atomic_bool told;
    if (!atomic_exchange(&told, true)) { /* programs try again and again */
        message_print("nvidia-smi shows who has it",
                      "memory on GPU %u that was promised is not there", device->gpu);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult alloc_map(struct extent *extent)
{
    uint64_t tried_ns = 0; /* without what it stood at the gate: others had the memory then */
    unsigned asked = 0;
    for (;;) {
        struct mw_slot *slot = gate_enter();
        uint64_t began = now_ns();
        CUresult result = back_in_steps(extent);
        gate_leave(slot);
        if (result != CUDA_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        if (tried_ns > PATIENCE_NS) {
            return gave_up(extent->device);
        }
        credit_drop_cached(extent->device);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        tried_ns += now_ns() - began;
        if (tried_ns > (asked + 1) * ASK_AFTER_NS) {
            oom_retry_on(extent->device, asked++); /* the driver may have taken it for itself */
        }
    }
}

/* Into the table, where its context may take it along at any moment: it is found out in keep. */
static int enter(struct extent *extent)
{
    extent->making = true;
    extent->orphan = false;
    return extent_insert(extent);
}

/* What could not be backed goes again. */
static void unmake(struct extent *extent)
{
    LOCK_SCOPE(&extent_lock);
    discard(extent, false);
}

/* With extent_lock: whoever made an extent is through with it. */
static CUresult keep(struct extent *extent)
{
    bool lost =
        extent->orphan || (extent->context && !device_has_context(extent->device, extent->context));
    extent->making = false;
    if (lost) {
        discard(extent, false);
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
        device_detach_unused(device);
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
        gate_enter(); /* what is spare goes before it is said that nothing runs */
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
    if (extent && back_in_steps(extent) != CUDA_SUCCESS) {
        unmake(extent);
        extent = NULL;
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
    result = managed ? CUDA_SUCCESS : alloc_map(extent);
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

static CUresult allocate_small(struct device *device, CUdeviceptr *pointer, size_t bytes,
                               unsigned attach)
{
    CUcontext context = NULL;
    DRIVER(cuCtxGetCurrent)(&context);
    lock_take(&extent_lock);
    bool found = slab_take(device, context, attach != 0, bytes, pointer);
    lock_drop(&extent_lock);
    if (found) {
        return CUDA_SUCCESS;
    }
    struct extent *extent;
    CUresult result = make(device, GRANULE, attach, CUT_PLAIN, &extent);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    lock_take(&extent_lock);
    result = keep(extent);
    if (result == CUDA_SUCCESS && slab_adopt(extent) != 0) {
        alloc_discard(extent);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (result == CUDA_SUCCESS) {
        slab_take(device, context, attach != 0, bytes, pointer);
    }
    lock_drop(&extent_lock);
    if (result != CUDA_SUCCESS) {
        device_detach_unused(device);
    }
    return result;
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
        device_detach_unused(device);
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
        return result == CUDA_ERROR_OUT_OF_MEMORY && pools_give_up(device)
                   ? allocate_small(device, pointer, bytes, attach)
                   : result;
    }
    result = make(device, bytes, attach, CUT_PLAIN, &extent);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && pools_give_up(device)) {
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

/* Memory is also used from contexts that it does not belong to, mostly from the one that frees it. */
static bool await_both(CUcontext context, CUcontext current, CUresult *result)
{
    bool waited = current ? streams_synchronise(result) : true;
    if (!waited || *result != CUDA_SUCCESS || !context || context == current ||
        DRIVER(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) {
        return waited;
    }
    waited = streams_synchronise(result);
    device_pop();
    return waited;
}

bool alloc_await(CUcontext context, CUresult *result)
{
    CUcontext current = NULL;
    struct mw_slot *slot = gate_block();
    *result = DRIVER(cuCtxGetCurrent)(&current); /* not in a function of the host's in a stream */
    bool waited = *result != CUDA_SUCCESS || await_both(context, current, result);
    gate_unblock(slot);
    return waited;
}

static CUresult free_now(CUdeviceptr pointer)
{
    LOCK_SCOPE(&extent_lock);
    struct extent *extent = extent_find(pointer);
    bool empty = false;
    if (extent && extent->slab && slab_give_back(extent, pointer, &empty)) {
        ipc_export_freed(pointer);
        if (empty) {
            slab_drop(extent);
            alloc_discard(extent);
        }
        return CUDA_SUCCESS;
    }
    if (extent && !extent->slab && extent->base == pointer) {
        alloc_discard(extent);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

bool alloc_free(CUdeviceptr pointer, CUresult *result)
{
    lock_take(&extent_lock);
    struct extent *extent = extent_find(pointer);
    CUcontext context = extent ? extent->context : NULL;
    const struct device *reached =
        extent && (extent->device->peers | extent->device->crossed) ? extent->device : NULL;
    bool pooled = extent && extent->segment;
    lock_drop(&extent_lock);
    if (!pointer || !extent) {
        return false;
    }
    if (pooled) { /* the driver waits for nothing here, either */
        if (!pool_free(pointer, NULL, true, result)) {
            *result = CUDA_ERROR_INVALID_VALUE;
        }
        return true;
    }
    if (!alloc_await(context, result) ||
        (*result == CUDA_SUCCESS && reached && !peer_access_await(reached, result))) {
        *result = put_off(pointer, context);
        alloc_capture_ended(); /* it may have, meanwhile */
    } else if (*result == CUDA_SUCCESS) {
        *result = free_now(pointer);
    }
    return true;
}

static struct later *take_later(void)
{
    LOCK_SCOPE(&extent_lock);
    struct later *next = later;
    later = next ? next->next : NULL;
    return next;
}

void alloc_capture_ended(void)
{
    CUresult result;
    struct later *next;
    while (!gate_in_capture() && (next = take_later()) != NULL) {
        if (!alloc_await(next->context, &result)) {
            LOCK_SCOPE(&extent_lock);
            next->next = later;
            later = next;
            continue;
        }
        if (result == CUDA_SUCCESS) {
            free_now(next->pointer);
        }
        free(next);
    }
}

bool address_info_base(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base)
{
    size_t bytes;
    uint64_t number;
    *base = extent->base;
    return !extent->slab || slab_range(extent, pointer, base, &bytes, &number);
}

void alloc_drained(void)
{
    struct later *next;
    while ((next = take_later()) != NULL) {
        free_now(next->pointer);
        free(next);
    }
}

bool address_info_get(CUdeviceptr pointer, struct address_info *info)
{
    lock_take(&extent_lock);
    struct extent *extent = extent_find(pointer);
    bool pooled = extent && extent->segment;
    const struct vmm_mapping *mapping = extent ? NULL : vmm_mappings_find(pointer);
    bool found = (extent && !pooled) || mapping;
    if (mapping) {
        *info = (struct address_info){.base = mapping->base,
                                      .bytes = mapping->bytes,
                                      .ordinal = mapping->of->prop.location.id,
                                      .mapping = true,
                                      .handle_types = mapping->of->prop.requestedHandleTypes,
                                      .number = mapping->of->extent->sequence};
    } else if (found) {
        *info = (struct address_info){.base = extent->base,
                                      .bytes = extent->bytes,
                                      .context = extent->context,
                                      .ordinal = extent->device->ordinal,
                                      .managed = extent->managed,
                                      .number = extent->sequence};
        if (extent->slab) {
            found = slab_range(extent, pointer, &info->base, &info->bytes, &info->number);
        }
        found = found && pointer < info->base + info->bytes;
    }
    lock_drop(&extent_lock);
    if (!extent && !mapping) {
        return ipc_import_describe(pointer, info);
    }
    return pooled ? pool_describe(pointer, info) : found;
}

CUdeviceptr address_info_as_seen(CUdeviceptr pointer)
{
    struct address_info info;
    if (address_info_get(pointer, &info)) {
        return pointer;
    }
    LOCK_SCOPE(&extent_lock);
    return extent_find(pointer) || free_cache_has(pointer) ? NOTHING : pointer;
}

bool address_info_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes)
{
    struct address_info info;
    if (!address_info_get(pointer, &info)) {
        return false;
    }
    if (base) {
        *base = info.base;
    }
    if (bytes) {
        *bytes = info.bytes;
    }
    return true;
}

uint64_t alloc_bytes(const struct device *device)
{
    LOCK_SCOPE(&extent_lock);
    return device->allocated_bytes;
}

void alloc_forget(struct device *device, CUcontext context)
{
    LOCK_SCOPE(&extent_lock);
    for (size_t i = extent_count(); i > 0;) {
        struct extent *extent = extent_get(--i);
        bool wanted = extent->device == device && (!context || extent->context == context);
        extent->orphan |= wanted && extent->making;
        if (wanted && !extent->retiring && !extent->segment && !extent->making) {
            if (extent->slab) {
                slab_drop(extent);
            }
            discard(extent, false);
            i = extent_count(); /* the table may have changed meanwhile */
        }
    }
}

void alloc_freeze(void) { lock_take(&extent_lock); }

void alloc_thaw(void) { lock_drop(&extent_lock); }

void alloc_after_fork(void)
{
    extent_after_fork();
    slab_after_fork();
    credits_after_fork();
    pools_after_fork();
    later = NULL;
}
