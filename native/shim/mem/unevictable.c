#include "shim/mem/unevictable.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/accounting.h"
#include "shim/mem/extent.h"

struct kept {
    struct kept *next;
    const void *object;
    CUcontext context;
    struct device *device;
    uint64_t bytes;
};

struct meter {
    struct meter *next;
    CUmemoryPool handle;
    struct device *device;
    uint64_t charged;
};

static struct lock kept_lock =
    LOCK_INIT(LOCK_UNEVICTABLE); /* taken before extent_lock, and never while the agent is asked */
static struct kept *kept;
static struct meter *meters;

CUresult unevictable_take(struct device *device, uint64_t bytes)
{
    CUresult result = accounting_charge(device, bytes, MW_ALLOC_PINNED);
    if (result == CUDA_SUCCESS) {
        LOCK_SCOPE(&extent_lock);
        device->resident_bytes += bytes;
    }
    return result;
}

void unevictable_give(struct device *device, uint64_t bytes)
{
    LOCK_SCOPE(&extent_lock);
    device->resident_bytes -= bytes;
    accounting_release(device, bytes, bytes, MW_ALLOC_PINNED);
}

/* ---- objects ---- */

CUresult unevictable_add(const void *object, CUcontext context, struct device *device,
                         uint64_t bytes)
{
    struct kept *made = malloc(sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    LOCK_SCOPE(&kept_lock);
    *made = (struct kept){kept, object, context, device, bytes};
    kept = made;
    return CUDA_SUCCESS;
}

static void remove_kept(struct kept **at)
{
    struct kept *gone = *at;
    *at = gone->next;
    unevictable_give(gone->device, gone->bytes);
    free(gone);
}

void unevictable_remove(const void *object)
{
    struct kept **oldest = NULL; /* a new one may have got the same handle already */
    LOCK_SCOPE(&kept_lock);
    for (struct kept **at = &kept; *at; at = &(*at)->next) {
        oldest = (*at)->object == object ? at : oldest;
    }
    if (oldest) {
        remove_kept(oldest);
    }
}

void unevictable_forget_context(CUcontext context)
{
    LOCK_SCOPE(&kept_lock);
    for (struct kept **at = &kept; *at;) {
        if ((*at)->context == context) {
            remove_kept(at);
        } else {
            at = &(*at)->next;
        }
    }
}

/* ---- meters ---- */

struct meter *unevictable_find_meter(CUmemoryPool handle, CUdevice ordinal)
{
    LOCK_SCOPE(&kept_lock);
    struct meter *meter = meters;
    while (meter && (meter->handle != handle || (!handle && meter->device->ordinal != ordinal))) {
        meter = meter->next;
    }
    return meter;
}

struct meter *unevictable_meter(CUmemoryPool handle, struct device *device)
{
    struct meter *meter = unevictable_find_meter(handle, device->ordinal);
    if (meter) {
        return meter;
    }
    meter = calloc(1, sizeof(*meter));
    if (meter) {
        LOCK_SCOPE(&kept_lock);
        meter->handle = handle;
        meter->device = device;
        meter->next = meters;
        meters = meter;
    }
    return meter;
}

static uint64_t reserved_bytes(const struct meter *meter)
{
    uint64_t bytes = 0;
    CUresult result =
        meter->handle ? DRIVER(cuMemPoolGetAttribute)(meter->handle,
                                                      CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes)
                      : DRIVER(cuDeviceGetGraphMemAttribute)(
                            meter->device->ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? bytes : 0;
}

static uint64_t used_bytes(const struct meter *meter)
{
    uint64_t bytes = 0;
    CUresult result =
        DRIVER(cuMemPoolGetAttribute)(meter->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? bytes : 0;
}

/* Charges more, or less. */
static CUresult charge(struct meter *meter, uint64_t wanted)
{
    lock_take(&kept_lock);
    uint64_t charged = meter->charged;
    meter->charged = wanted;
    lock_drop(&kept_lock);
    if (wanted < charged) {
        unevictable_give(meter->device, charged - wanted);
    } else if (wanted > charged &&
               unevictable_take(meter->device, wanted - charged) != CUDA_SUCCESS) {
        LOCK_SCOPE(&kept_lock);
        meter->charged -= wanted - charged;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult unevictable_expect(struct meter *meter, uint64_t bytes)
{
    uint64_t reserved = reserved_bytes(meter);
    uint64_t needed = used_bytes(meter) + (bytes + GRANULE - 1) / GRANULE * GRANULE;
    uint64_t wanted = needed > reserved ? needed : reserved;
    return wanted > meter->charged ? charge(meter, wanted) : CUDA_SUCCESS;
}

void unevictable_settle(struct meter *meter)
{
    uint64_t reserved = reserved_bytes(meter);
    if (reserved != meter->charged) {
        charge(meter, reserved);
    }
}

CUresult unevictable_charge_graphs(struct meter *meter, uint64_t expected)
{
    return charge(meter, reserved_bytes(meter) + expected);
}

void unevictable_settle_pools(void)
{
    lock_take(&kept_lock);
    struct meter *meter = meters;
    lock_drop(&kept_lock);
    for (; meter; meter = meter->next) { /* they are never freed */
        if (meter->handle && meter->charged) {
            unevictable_settle(meter);
        }
    }
}

void unevictable_end_meter(CUmemoryPool handle)
{
    struct meter *meter = handle ? unevictable_find_meter(handle, 0) : NULL;
    if (meter) { /* what is not freed yet stays, and stays charged: it cannot be asked for any more */
        LOCK_SCOPE(&kept_lock);
        meter->handle = (CUmemoryPool)(void *)meter; /* no pool's: another may get the same one */
    }
}

void unevictable_forget_device(struct device *device)
{
    lock_take(&kept_lock);
    struct meter *meter = meters;
    lock_drop(&kept_lock);
    for (; meter; meter = meter->next) {
        if (meter->device == device) {
            charge(meter, 0);
        }
    }
}

void unevictable_after_fork(void)
{
    kept = NULL;
    meters = NULL;
    lock_after_fork(&kept_lock);
}
