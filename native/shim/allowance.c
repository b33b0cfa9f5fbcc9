#include "shim/allowance.h"

#include <stdatomic.h>

#include "shim/blocks.h"
#include "shim/charge.h"
#include "shim/link.h"
#include "shim/say.h"
#include "shim/spares.h"

/* Programs that allocate again and again do it within this. */
#define MOMENT_NS 1000000000ull

_Atomic uint32_t allowances_given;

static void tell(enum mw_type type, const struct device *device, uint64_t bytes, uint64_t spare)
{
    struct mw_free note = {.gpu = device->gpu,
                           .flags = type == MW_FREE ? MW_FREE_TO_CREDIT : 0,
                           .bytes = bytes,
                           .resident_bytes = spare};
    link_send(&note, sizeof(note), type);
}

/* So much of the allowance is used, and so much of that was spare. */
static void use(struct device *device, uint64_t bytes, uint64_t spare)
{
    device->allowed_bytes -= bytes;
    device->allowed_used_ns = now_ns();
    charge_count(device, bytes, 0);
    tell(MW_CREDIT_USED, device, bytes, spare);
}

static bool may_take(const struct device *device, uint64_t bytes)
{
    return bytes <= device->allowed_bytes &&
           device->allocated_bytes + bytes <= device_limit(device);
}

bool allowance_take(struct device *device, uint64_t bytes)
{
    if (!may_take(device, bytes)) {
        return false;
    }
    use(device, bytes, spares_shrink(device, device->allowed_bytes - bytes));
    return true;
}

struct block *allowance_reuse(struct device *device, uint64_t span, uint32_t chunks)
{
    struct block *found = may_take(device, span) ? spares_take(device, span, chunks) : NULL;
    if (found) {
        use(device, span, span);
    }
    return found;
}

static bool may_put(const struct device *device, uint64_t bytes)
{
    return device->allowed_bytes + bytes <= device->allowed_most_bytes;
}

static void put(struct device *device, uint64_t bytes, uint64_t spare)
{
    device->allowed_bytes += bytes;
    device->allowed_used_ns = now_ns();
    charge_count(device, -bytes, 0);
    tell(MW_FREE, device, bytes, spare);
}

bool allowance_put(struct device *device, uint64_t bytes)
{
    if (!may_put(device, bytes)) {
        return false;
    }
    put(device, bytes, 0);
    return true;
}

bool allowance_keep(struct block *block)
{
    struct device *device = block->device;
    if (!may_put(device, block->span) || !spares_keep(block)) {
        return false;
    }
    put(device, block->span, block->span);
    return true;
}

void allowance_give_up_spares(struct device *device)
{
    LOCK_SCOPE(&blocks_lock);
    uint64_t gone = spares_shrink(device, 0);
    if (gone) {
        tell(MW_CREDIT_USED, device, 0, gone);
    }
}

static uint64_t drop(struct device *device)
{
    uint64_t left = device->allowed_bytes;
    spares_shrink(device, 0);
    atomic_fetch_sub(&allowances_given, device->allowed_most_bytes != 0);
    device->allowed_bytes = 0;
    device->allowed_most_bytes = 0;
    return left;
}

void allowance_forget(struct device *device)
{
    LOCK_SCOPE(&blocks_lock);
    drop(device);
}

void allowance_given(uint32_t gpu, uint64_t bytes, uint64_t most_bytes)
{
    LOCK_SCOPE(&blocks_lock);
    struct device *device = device_of_gpu(gpu);
    if (!device || !most_bytes) {
        return; /* with the device all of its memory is gone, for the agent as well */
    }
    atomic_fetch_add(&allowances_given, device->allowed_most_bytes == 0);
    device->allowed_bytes += bytes;
    device->allowed_most_bytes = most_bytes;
    device->allowed_used_ns = now_ns();
}

/* With blocks_lock held. */
static void end(struct device *device) { link_amount(MW_CREDIT_RETURNED, device->gpu, drop(device)); }

void allowance_recalled(uint32_t gpu)
{
    LOCK_SCOPE(&blocks_lock);
    struct device *device = device_of_gpu(gpu);
    if (device) {
        end(device);
    }
}

void allowances_end(void)
{
    for (struct device *d = device_next(NULL); d && atomic_load(&allowances_given);
         d = device_next(d)) {
        LOCK_SCOPE(&blocks_lock);
        if (d->allowed_most_bytes) {
            end(d);
        }
    }
}

void allowances_forget(void)
{
    for (struct device *d = device_next(NULL); d && atomic_load(&allowances_given);
         d = device_next(d)) {
        drop(d);
    }
}

uint64_t allowances_look(void)
{
    uint64_t soonest_ns = UINT64_MAX;
    if (!atomic_load(&allowances_given)) {
        return soonest_ns;
    }
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        LOCK_SCOPE(&blocks_lock);
        uint64_t since_ns = now_ns() - d->allowed_used_ns;
        if (!d->allowed_most_bytes) {
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

void allowances_after_fork(void)
{
    atomic_store(&allowances_given, 0);
    spares_after_fork();
}
