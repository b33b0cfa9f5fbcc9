#include "shim/mem/accounting.h"

#include <stdatomic.h>

#include "shim/agent/socket.h"
#include "shim/base/message.h"
#include "shim/mem/extent.h"
#include "shim/mem/free_cache.h"

/* Programs that allocate again and again do it within this. */
#define MOMENT_NS 1000000000ull

_Atomic uint32_t credits_granted;

static void count(struct device *device, uint64_t bytes, uint32_t flags)
{
    device->allocated_bytes += bytes;
    device->managed_bytes += flags & MW_ALLOC_MANAGED ? bytes : 0;
    device->pinned_bytes += flags & MW_ALLOC_PINNED ? bytes : 0;
}

/* ---- memory that is taken without asking ---- */

static void tell(enum mw_type type, const struct device *device, uint64_t bytes, uint64_t cached)
{
    struct mw_free note = {.gpu = device->gpu,
                           .flags = type == MW_FREE ? MW_FREE_TO_CREDIT : 0,
                           .bytes = bytes,
                           .resident_bytes = cached};
    agent_send(&note, sizeof(note), type);
}

/* So much of the credit is used, and `cached` of it was cached memory. */
static void use(struct device *device, uint64_t bytes, uint64_t cached)
{
    device->credit_bytes -= bytes;
    device->credit_used_ns = now_ns();
    count(device, bytes, 0);
    tell(MW_CREDIT_USED, device, bytes, cached);
}

static bool may_take(const struct device *device, uint64_t bytes)
{
    return bytes <= device->credit_bytes && device->allocated_bytes + bytes <= device_limit(device);
}

bool credit_take(struct device *device, uint64_t bytes)
{
    if (!may_take(device, bytes)) {
        return false;
    }
    use(device, bytes, free_cache_shrink(device, device->credit_bytes - bytes));
    return true;
}

struct extent *credit_reuse(struct device *device, uint64_t span, uint32_t chunks)
{
    struct extent *found = may_take(device, span) ? free_cache_take(device, span, chunks) : NULL;
    if (found) {
        use(device, span, span);
    }
    return found;
}

static bool may_put(const struct device *device, uint64_t bytes)
{
    return device->credit_bytes + bytes <= device->credit_most_bytes;
}

static void put(struct device *device, uint64_t bytes, uint64_t cached)
{
    device->credit_bytes += bytes;
    device->credit_used_ns = now_ns();
    count(device, -bytes, 0);
    tell(MW_FREE, device, bytes, cached);
}

bool credit_put(struct device *device, uint64_t bytes)
{
    if (!may_put(device, bytes)) {
        return false;
    }
    put(device, bytes, 0);
    return true;
}

bool credit_keep(struct extent *extent)
{
    struct device *device = extent->device;
    if (!may_put(device, extent->span) || !free_cache_put(extent)) {
        return false;
    }
    put(device, extent->span, extent->span);
    return true;
}

void credit_drop_cached(struct device *device)
{
    LOCK_SCOPE(&extent_lock);
    uint64_t gone = free_cache_shrink(device, 0);
    if (gone) {
        tell(MW_CREDIT_USED, device, 0, gone);
    }
}

static uint64_t drop(struct device *device)
{
    uint64_t left = device->credit_bytes;
    free_cache_shrink(device, 0);
    atomic_fetch_sub(&credits_granted, device->credit_most_bytes != 0);
    device->credit_bytes = 0;
    device->credit_most_bytes = 0;
    return left;
}

/* Its credit is over, for the agent as well: the device is gone. */
static void end_with_device(struct device *device)
{
    LOCK_SCOPE(&extent_lock);
    drop(device);
}

void accounting_detach_unused(struct device *device)
{
    device_detach_unused(device, end_with_device);
}

void credit_grant(uint32_t gpu, uint64_t bytes, uint64_t most_bytes)
{
    LOCK_SCOPE(&extent_lock);
    struct device *device = device_of_gpu(gpu);
    if (!device || !most_bytes) {
        return; /* with the device all of its memory is gone, for the agent as well */
    }
    atomic_fetch_add(&credits_granted, device->credit_most_bytes == 0);
    device->credit_bytes += bytes;
    device->credit_most_bytes = most_bytes;
    device->credit_used_ns = now_ns();
}

/* With extent_lock held. */
static void end(struct device *device)
{
    agent_amount(MW_CREDIT_RETURNED, device->gpu, drop(device));
}

void credit_revoke(uint32_t gpu)
{
    LOCK_SCOPE(&extent_lock);
    struct device *device = device_of_gpu(gpu);
    if (device) {
        end(device);
    }
}

void credits_end(void)
{
    for (struct device *d = device_next(NULL); d && atomic_load(&credits_granted);
         d = device_next(d)) {
        LOCK_SCOPE(&extent_lock);
        if (d->credit_most_bytes) {
            end(d);
        }
    }
}

void credits_forget(void)
{
    for (struct device *d = device_next(NULL); d && atomic_load(&credits_granted);
         d = device_next(d)) {
        drop(d);
    }
}

uint64_t credits_expire(void)
{
    uint64_t soonest_ns = UINT64_MAX;
    if (!atomic_load(&credits_granted)) {
        return soonest_ns;
    }
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        LOCK_SCOPE(&extent_lock);
        uint64_t since_ns = now_ns() - d->credit_used_ns;
        if (!d->credit_most_bytes) {
            continue;
        }
        if (since_ns >= MOMENT_NS) {
            end(d);
        } else if (MOMENT_NS - since_ns < soonest_ns) {
            soonest_ns = MOMENT_NS - since_ns;
        }
    }
    return soonest_ns;
}

void credits_after_fork(void)
{
    atomic_store(&credits_granted, 0);
    free_cache_after_fork();
}

/* ---- memory that the agent is asked for ---- */

static bool is_allowed(struct device *device, uint64_t bytes)
{
    if (!atomic_load(&credits_granted)) {
        return false;
    }
    LOCK_SCOPE(&extent_lock);
    return credit_take(device, bytes);
}

CUresult accounting_charge(struct device *device, uint64_t bytes, uint32_t flags)
{
    static atomic_bool said;
    if (!flags && is_allowed(device, bytes)) {
        return CUDA_SUCCESS;
    }
    struct agent_request request = {
        .message.alloc = {.gpu = device->gpu, .flags = flags, .bytes = bytes}};
    agent_ask(&request, sizeof(request.message.alloc), MW_ALLOC_REQUEST);
    if (request.message.header.type == MW_ALLOC_REPLY) {
        return CUDA_SUCCESS; /* the control thread counted it: accounting_admitted */
    }
    if (request.message.refused.code != MW_REFUSAL_LIMIT) {
        message_once(&said, NULL, "%s", request.message.refused.text);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void accounting_release(struct device *device, uint64_t bytes, uint64_t resident, uint32_t flags)
{
    struct mw_free note = {
        .gpu = device->gpu, .flags = flags, .bytes = bytes, .resident_bytes = resident};
    if (!flags && bytes == resident && credit_put(device, bytes)) {
        return;
    }
    count(device, -bytes, flags);
    agent_send(&note, sizeof(note), MW_FREE);
}

void accounting_pinned(uint32_t gpu, uint64_t bytes)
{
    LOCK_SCOPE(&extent_lock);
    struct device *device = device_of_gpu(gpu);
    if (device) {
        device->pinned_bytes += bytes;
    }
}

void accounting_unpin(uint32_t gpu, uint64_t bytes)
{
    struct device *device = device_of_gpu(gpu);
    if (device) { /* else with the device all of its memory is gone, for the agent as well */
        device->pinned_bytes -= bytes;
        agent_amount(MW_UNPIN, gpu, bytes);
    }
}

void accounting_admitted(uint32_t gpu, uint64_t bytes, uint32_t flags)
{
    LOCK_SCOPE(&extent_lock);
    struct device *device = device_of_gpu(gpu);
    if (device) {
        count(device, bytes, flags);
    }
}
