#include "shim/mem/release.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/gate/gate.h"
#include "shim/gate/streams.h"
#include "shim/mem/accounting.h"
#include "shim/mem/address_info.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/peer_access.h"
#include "shim/mem/slab.h"
#include "shim/mem/upcalls.h"

/* What is to be freed once no capture is open: waiting for the GPU would break the capture, and
 * freeing without having waited would take memory away from under running work. */
struct later {
    struct later *next;
    uint64_t number; /* rises from one to the next */
    CUdeviceptr pointer;
    CUcontext context;
};
static struct later *later; /* under extent_lock */

#define PATIENCE_NS 1000000000ull /* for work that runs beside a capture, where memory is needed */

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
    *made = (struct later){later, extent_next_sequence(), pointer, context};
    later = made;
    return CUDA_SUCCESS;
}

/* With extent_lock held: drops the deferred frees in an extent that is destroyed. */
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

/* The extent is retiring, and no lock is held. */
static void discard(struct extent *extent, bool may_keep)
{
    struct device *device = extent->device;
    extent_await_holders(extent);
    LOCK_SCOPE(&extent_lock);
    uint64_t charged = extent->span - extent->decommitted_bytes;
    void *exports = mem_upcalls.ending(extent);
    uint32_t flags = extent_charge_flags(extent);
    drop_later(extent);
    extent_table_remove(extent);
    if (may_keep && !exports && credit_keep(extent)) {
        return;
    }
    accounting_release(device, charged, extent_destroy(extent), flags);
    if (exports) {
        mem_upcalls.ended(exports);
    }
}

void release_extent(struct extent *extent) { discard(extent, true); }

void release_extent_wholly(struct extent *extent) { discard(extent, false); }

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

bool release_await(CUcontext context, CUresult *result)
{
    CUcontext current = NULL;
    struct mw_slot *slot = gate_block();
    *result = DRIVER(cuCtxGetCurrent)(&current); /* not in a function of the host's in a stream */
    bool waited = *result != CUDA_SUCCESS || await_both(context, current, result);
    gate_unblock(slot);
    return waited;
}

static void await_beside(CUcontext context)
{
    if (context && DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS) {
        streams_await_uncaptured(context, UINT64_MAX);
        device_pop();
    }
}

void release_await_wholly(CUcontext context, CUresult *result)
{
    CUcontext current = NULL;
    if (release_await(context, result)) {
        return;
    }
    struct mw_slot *slot = gate_block();
    DRIVER(cuCtxGetCurrent)(&current);
    await_beside(current);
    if (context != current) {
        await_beside(context);
    }
    gate_unblock(slot);
}

/* Under the lock: frees one allocation. *gone: its extent, which is empty and retiring; else NULL. */
static CUresult free_locked(CUdeviceptr pointer, struct extent **gone)
{
    LOCK_SCOPE(&extent_lock);
    struct extent *extent = extent_table_find(pointer);
    bool empty = false;
    if (extent && extent->use == EXTENT_OF_SLAB) {
        if (!slab_give_back(extent, pointer, &empty)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        mem_upcalls.freed(pointer);
        if (empty) {
            slab_drop(extent);
        }
    } else if (extent && extent->base == pointer) {
        empty = true;
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (empty) {
        extent_retire(extent);
        *gone = extent;
    }
    return CUDA_SUCCESS;
}

static CUresult free_now(CUdeviceptr pointer)
{
    struct extent *gone = NULL;
    CUresult result = free_locked(pointer, &gone);
    if (gone) {
        release_extent(gone);
    }
    return result;
}

static struct later *take_later(void)
{
    LOCK_SCOPE(&extent_lock);
    struct later *next = later;
    later = next ? next->next : NULL;
    return next;
}

void release_after_capture(void)
{
    CUresult result;
    struct later *next;
    while (!gate_in_capture() && (next = take_later()) != NULL) {
        if (!release_await(next->context, &result)) {
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

static bool await_device(const struct device *device)
{
    uint32_t place = CONTEXTS_ALL;
    CUcontext context;
    bool over = true;
    while (over && (context = device_next_context(device, &place)) != NULL) {
        over = DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
        if (over) {
            over = streams_await_uncaptured(context, PATIENCE_NS);
            device_pop();
        }
    }
    return over;
}

/* Whether nothing runs on any device but what captures hold: peers use its memory, too. */
static bool await_devices(void)
{
    struct mw_slot *slot = gate_block();
    bool over = true;
    for (struct device *d = device_next(NULL); d && over; d = device_next(d)) {
        over = await_device(d);
    }
    gate_unblock(slot);
    return over;
}

/* One free on the device that was deferred before `number`, out of the list; NULL: there is none. */
static struct later *take_later_before(const struct device *device, uint64_t number)
{
    LOCK_SCOPE(&extent_lock);
    for (struct later **at = &later; *at; at = &(*at)->next) {
        struct later *found = *at;
        const struct extent *extent = extent_table_find(found->pointer);
        if (extent && extent->device == device && found->number < number) {
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

static bool is_deferred(const struct device *device)
{
    LOCK_SCOPE(&extent_lock);
    for (const struct later *each = later; each; each = each->next) {
        const struct extent *extent = extent_table_find(each->pointer);
        if (extent && extent->device == device) {
            return true;
        }
    }
    return false;
}

bool release_deferred(const struct device *device)
{
    struct later *next;
    bool any = false;
    uint64_t number = extent_next_sequence(); /* what is deferred later may be used by later work */
    if (!is_deferred(device) || !await_devices()) {
        return false;
    }
    while ((next = take_later_before(device, number)) != NULL) {
        any |= free_now(next->pointer) == CUDA_SUCCESS;
        free(next);
    }
    return any;
}

bool release_address(CUdeviceptr pointer, CUresult *result)
{
    lock_take(&extent_lock);
    struct extent *extent = extent_table_find(pointer);
    CUcontext context = extent ? extent->context : NULL;
    const struct device *reached =
        extent && (extent->device->peers | extent->device->crossed) ? extent->device : NULL;
    bool pooled = extent && extent->use == EXTENT_OF_POOL;
    lock_drop(&extent_lock);
    if (!pointer || !extent) {
        return false;
    }
    if (pooled) { /* the driver waits for nothing here, either */
        if (!mem_upcalls.pool_free(pointer, result)) {
            *result = CUDA_ERROR_INVALID_VALUE;
        }
        return true;
    }
    if (!release_await(context, result) ||
        (*result == CUDA_SUCCESS && reached && !peer_access_await(reached, result))) {
        *result = put_off(pointer, context);
        release_after_capture(); /* it may have, meanwhile */
    } else if (*result == CUDA_SUCCESS) {
        *result = free_now(pointer);
    }
    return true;
}

void release_after_drain(void)
{
    struct later *next;
    while ((next = take_later()) != NULL) {
        free_now(next->pointer);
        free(next);
    }
}

/* Under the lock: one extent of the context, which is retiring from now on; NULL: there is none left. */
static struct extent *retire_one(const struct device *device, CUcontext context)
{
    LOCK_SCOPE(&extent_lock);
    for (size_t i = extent_table_count(); i > 0;) {
        struct extent *extent = extent_table_get(--i);
        bool wanted = extent->device == device && (!context || extent->context == context);
        extent->orphan |= wanted && extent->making;
        if (wanted && !extent->retiring && extent->use != EXTENT_OF_POOL && !extent->making) {
            if (extent->use == EXTENT_OF_SLAB) {
                slab_drop(extent);
            }
            extent_retire(extent);
            return extent;
        }
    }
    return NULL;
}

void release_context(struct device *device, CUcontext context)
{
    struct extent *extent;
    while ((extent = retire_one(device, context)) != NULL) {
        release_extent_wholly(extent);
    }
}

void release_after_fork(void) { later = NULL; }
