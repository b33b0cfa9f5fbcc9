#include "shim/memory.h"

#include <stdlib.h>
#include <time.h>

#include "shim/allocation.h"
#include "shim/allowance.h"
#include "shim/blocks.h"
#include "shim/charge.h"
#include "shim/exports.h"
#include "shim/gate.h"
#include "shim/imports.h"
#include "shim/lock.h"
#include "shim/managed.h"
#include "shim/mappings.h"
#include "shim/peers.h"
#include "shim/pool.h"
#include "shim/real.h"
#include "shim/room.h"
#include "shim/say.h"
#include "shim/slab.h"
#include "shim/spares.h"
#include "shim/streams.h"

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
    if (!memory_range(pointer, &base, &bytes) || base != pointer) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct later *made = malloc(sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    LOCK_SCOPE(&blocks_lock);
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

/* With blocks_lock held: those in a block that goes are gone with it. */
static void drop_later(const struct block *block)
{
    for (struct later **at = &later; *at;) {
        struct later *each = *at;
        if (each->pointer >= block->base && each->pointer < block_beyond(block)) {
            *at = each->next;
            free(each);
        } else {
            at = &each->next;
        }
    }
}

static void discard(struct block *block, bool may_keep)
{
    struct device *device = block->device;
    block_retire(block);
    uint64_t charged = block->span - block->hollow_bytes;
    struct export *exports = exports_take(block);
    uint32_t flags = block_charge(block);
    drop_later(block);
    blocks_remove(block);
    if (may_keep && !exports && allowance_keep(block)) {
        return;
    }
    charge_drop(device, charged, block_destroy(block), flags);
    exports_end(exports);
}

void memory_discard(struct block *block) { discard(block, true); }

/* The lock is free between steps: mapping many chunks takes long, and others free memory. */
static CUresult back_in_steps(struct block *block)
{
    CUresult result;
    bool whole = false;
    lock_take(&blocks_lock);
    block_hold(block);
    do {
        result = block_map(block, MAPPED_AT_ONCE, &whole);
        lock_drop(&blocks_lock);
        lock_take(&blocks_lock);
    } while (result == CUDA_SUCCESS && !whole);
    block_let_go(block);
    lock_drop(&blocks_lock);
    return result;
}

static CUresult gave_up(const struct device *device)
{
    static atomic_bool told;
    if (!atomic_exchange(&told, true)) { /* programs try again and again */
        say("nvidia-smi shows who has it", "memory on GPU %u that was promised is not there",
            device->gpu);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_back(struct block *block)
{
    uint64_t tried_ns = 0; /* without what it stood at the gate: others had the memory then */
    unsigned asked = 0;
    for (;;) {
        struct mw_slot *slot = gate_enter();
        uint64_t began = now_ns();
        CUresult result = back_in_steps(block);
        gate_leave(slot);
        if (result != CUDA_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        if (tried_ns > PATIENCE_NS) {
            return gave_up(block->device);
        }
        allowance_give_up_spares(block->device);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        tried_ns += now_ns() - began;
        if (tried_ns > (asked + 1) * ASK_AFTER_NS) {
            room_made_on(block->device, asked++); /* the driver may have taken it for itself */
        }
    }
}

/* Into the table, where its context may take it along at any moment: it is found out in keep. */
static int enter(struct block *block)
{
    block->making = true;
    block->orphan = false;
    return blocks_insert(block);
}

/* What could not be backed goes again. */
static void unmake(struct block *block)
{
    LOCK_SCOPE(&blocks_lock);
    discard(block, false);
}

/* With blocks_lock: whoever made a block is through with it. */
static CUresult keep(struct block *block)
{
    bool lost =
        block->orphan || (block->context && !device_has_context(block->device, block->context));
    block->making = false;
    if (lost) {
        discard(block, false);
    }
    return lost ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

/* The device stays attached while the agent is asked; what is charged keeps it so from then on. */
static CUresult charge(struct device *device, uint64_t bytes, uint32_t flags)
{
    if (!device_stay(device)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    CUresult result = charge_ask(device, bytes, flags);
    device_created(device);
    if (result != CUDA_SUCCESS) {
        device_detach_unused(device);
    }
    return result;
}

bool memory_allows(struct device *device, uint64_t bytes)
{
    if (bytes <= device_limit(device)) {
        return true;
    }
    if (charge(device, bytes, 0) == CUDA_SUCCESS) {
        LOCK_SCOPE(&blocks_lock); /* it asks again for what is really taken */
        charge_drop(device, bytes, 0, 0);
    }
    return bytes <= device_limit(device); /* it may have risen meanwhile */
}

/* A block that was freed before, of the same size: its memory has only to be mapped again. NULL: none.
 * The device stays attached until it counts. */
static struct block *reuse(struct device *device, uint64_t bytes, enum cut cut)
{
    if (!atomic_load(&allowances_given) || !device_stay(device)) {
        return NULL;
    }
    struct mw_slot *slot =
        gate_enter(); /* what is spare goes before it is said that nothing runs */
    lock_take(&blocks_lock);
    struct block *block =
        allowance_reuse(device, block_span(bytes), block_chunks(device, bytes, cut));
    if (block) {
        block->bytes = bytes;
        block->born = blocks_number();
        block->leaves = false;
        REAL(cuCtxGetCurrent)(&block->context);
    }
    if (block && enter(block) != 0) {
        charge_drop(device, block->span, block_destroy(block), 0);
        block = NULL;
    }
    lock_drop(&blocks_lock);
    if (block && back_in_steps(block) != CUDA_SUCCESS) {
        unmake(block);
        block = NULL;
    }
    gate_leave(slot);
    device_created(device);
    return block;
}

/* `attach` is what cuMemAllocManaged is called with; 0: chunks of ours. */
static CUresult make(struct device *device, uint64_t bytes, unsigned attach, enum cut cut,
                     struct block **made)
{
    bool managed = attach != 0;
    struct block *block = managed ? NULL : reuse(device, bytes, cut);
    if (block) {
        *made = block;
        return CUDA_SUCCESS;
    }
    uint64_t step = managed ? MANAGED_PAGE : GRANULE;
    uint64_t span = (bytes + step - 1) / step * step;
    uint32_t flags = managed ? MW_ALLOC_MANAGED : 0;
    CUresult result = charge(device, span, flags);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = managed ? managed_make(&block, device, bytes, attach)
                     : block_make(&block, device, bytes, cut);
    lock_take(&blocks_lock);
    if (result != CUDA_SUCCESS) {
        charge_drop(device, span, 0, flags);
    } else if (enter(block) != 0) {
        charge_drop(device, span, block_destroy(block), flags);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    lock_drop(&blocks_lock);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = managed ? CUDA_SUCCESS : memory_back(block);
    if (result != CUDA_SUCCESS) {
        unmake(block);
        return result;
    }
    *made = block;
    return CUDA_SUCCESS;
}

CUresult memory_make(struct device *device, uint64_t bytes, struct block **made)
{
    return make(device, bytes, atomic_load(&mode) == MW_MEMORY_MANAGED ? CU_MEM_ATTACH_GLOBAL : 0,
                CUT_FINE, made);
}

static CUresult allocate_small(struct device *device, CUdeviceptr *pointer, size_t bytes,
                               unsigned attach)
{
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent)(&context);
    lock_take(&blocks_lock);
    bool found = slab_take(device, context, attach != 0, bytes, pointer);
    lock_drop(&blocks_lock);
    if (found) {
        return CUDA_SUCCESS;
    }
    struct block *block;
    CUresult result = make(device, GRANULE, attach, CUT_PLAIN, &block);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    lock_take(&blocks_lock);
    result = keep(block);
    if (result == CUDA_SUCCESS && slab_adopt(block) != 0) {
        memory_discard(block);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (result == CUDA_SUCCESS) {
        slab_take(device, context, attach != 0, bytes, pointer);
    }
    lock_drop(&blocks_lock);
    if (result != CUDA_SUCCESS) {
        device_detach_unused(device);
    }
    return result;
}

static CUresult keep_large(struct device *device, struct block *block, CUdeviceptr *pointer)
{
    lock_take(&blocks_lock);
    CUdeviceptr base = block->base;
    CUresult result = keep(block);
    lock_drop(&blocks_lock);
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
    struct block *block;
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
    if (!memory_allows(device, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (bytes <= SLAB_LARGEST && !alone) {
        result = allocate_small(device, pointer, bytes, attach);
        return result == CUDA_ERROR_OUT_OF_MEMORY && pools_give_up(device)
                   ? allocate_small(device, pointer, bytes, attach)
                   : result;
    }
    result = make(device, bytes, attach, CUT_PLAIN, &block);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && pools_give_up(device)) {
        result = make(device, bytes, attach, CUT_PLAIN, &block);
    }
    return result == CUDA_SUCCESS ? keep_large(device, block, pointer) : result;
}

CUresult memory_allocate(CUdeviceptr *pointer, size_t bytes)
{
    unsigned attach = atomic_load(&mode) == MW_MEMORY_MANAGED ? CU_MEM_ATTACH_GLOBAL : 0;
    return allocate(pointer, bytes, attach, false);
}

CUresult memory_allocate_managed(CUdeviceptr *pointer, size_t bytes, unsigned attach)
{
    return attach ? allocate(pointer, bytes, attach, true) : CUDA_ERROR_INVALID_VALUE;
}

void memory_set_mode(uint32_t wanted) { atomic_store(&mode, wanted); }

/* Memory is also used from contexts that it does not belong to, mostly from the one that frees it. */
static bool await_both(CUcontext context, CUcontext current, CUresult *result)
{
    bool waited = current ? streams_synchronise(result) : true;
    if (!waited || *result != CUDA_SUCCESS || !context || context == current ||
        REAL(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) {
        return waited;
    }
    waited = streams_synchronise(result);
    device_pop();
    return waited;
}

bool memory_await(CUcontext context, CUresult *result)
{
    CUcontext current = NULL;
    struct mw_slot *slot = gate_block();
    *result = REAL(cuCtxGetCurrent)(&current); /* not in a function of the host's in a stream */
    bool waited = *result != CUDA_SUCCESS || await_both(context, current, result);
    gate_unblock(slot);
    return waited;
}

static CUresult free_now(CUdeviceptr pointer)
{
    LOCK_SCOPE(&blocks_lock);
    struct block *block = blocks_find(pointer);
    bool empty = false;
    if (block && block->slab && slab_give_back(block, pointer, &empty)) {
        exports_freed(pointer);
        if (empty) {
            slab_drop(block);
            memory_discard(block);
        }
        return CUDA_SUCCESS;
    }
    if (block && !block->slab && block->base == pointer) {
        memory_discard(block);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

bool memory_free(CUdeviceptr pointer, CUresult *result)
{
    lock_take(&blocks_lock);
    struct block *block = blocks_find(pointer);
    CUcontext context = block ? block->context : NULL;
    const struct device *reached =
        block && (block->device->peers | block->device->crossed) ? block->device : NULL;
    bool pooled = block && block->segment;
    lock_drop(&blocks_lock);
    if (!pointer || !block) {
        return false;
    }
    if (pooled) { /* the driver waits for nothing here, either */
        if (!pool_free(pointer, NULL, true, result)) {
            *result = CUDA_ERROR_INVALID_VALUE;
        }
        return true;
    }
    if (!memory_await(context, result) ||
        (*result == CUDA_SUCCESS && reached && !peers_await(reached, result))) {
        *result = put_off(pointer, context);
        memory_capture_ended(); /* it may have, meanwhile */
    } else if (*result == CUDA_SUCCESS) {
        *result = free_now(pointer);
    }
    return true;
}

static struct later *take_later(void)
{
    LOCK_SCOPE(&blocks_lock);
    struct later *next = later;
    later = next ? next->next : NULL;
    return next;
}

void memory_capture_ended(void)
{
    CUresult result;
    struct later *next;
    while (!gate_in_capture() && (next = take_later()) != NULL) {
        if (!memory_await(next->context, &result)) {
            LOCK_SCOPE(&blocks_lock);
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

bool memory_base(const struct block *block, CUdeviceptr pointer, CUdeviceptr *base)
{
    size_t bytes;
    uint64_t number;
    *base = block->base;
    return !block->slab || slab_range(block, pointer, base, &bytes, &number);
}

void memory_drained(void)
{
    struct later *next;
    while ((next = take_later()) != NULL) {
        free_now(next->pointer);
        free(next);
    }
}

bool memory_describe(CUdeviceptr pointer, struct memory_info *info)
{
    lock_take(&blocks_lock);
    struct block *block = blocks_find(pointer);
    bool pooled = block && block->segment;
    const struct mapping *mapping = block ? NULL : mappings_find(pointer);
    bool found = (block && !pooled) || mapping;
    if (mapping) {
        *info = (struct memory_info){.base = mapping->base,
                                     .bytes = mapping->bytes,
                                     .ordinal = mapping->of->prop.location.id,
                                     .mapping = true,
                                     .handle_types = mapping->of->prop.requestedHandleTypes,
                                     .number = mapping->of->block->born};
    } else if (found) {
        *info = (struct memory_info){.base = block->base,
                                     .bytes = block->bytes,
                                     .context = block->context,
                                     .ordinal = block->device->ordinal,
                                     .managed = block->managed,
                                     .number = block->born};
        if (block->slab) {
            found = slab_range(block, pointer, &info->base, &info->bytes, &info->number);
        }
        found = found && pointer < info->base + info->bytes;
    }
    lock_drop(&blocks_lock);
    if (!block && !mapping) {
        return imports_describe(pointer, info);
    }
    return pooled ? pool_describe(pointer, info) : found;
}

CUdeviceptr memory_as_seen(CUdeviceptr pointer)
{
    struct memory_info info;
    if (memory_describe(pointer, &info)) {
        return pointer;
    }
    LOCK_SCOPE(&blocks_lock);
    return blocks_find(pointer) || spares_have(pointer) ? NOTHING : pointer;
}

bool memory_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes)
{
    struct memory_info info;
    if (!memory_describe(pointer, &info)) {
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

uint64_t memory_allocated(const struct device *device)
{
    LOCK_SCOPE(&blocks_lock);
    return device->allocated_bytes;
}

void memory_forget(struct device *device, CUcontext context)
{
    LOCK_SCOPE(&blocks_lock);
    for (size_t i = blocks_count(); i > 0;) {
        struct block *block = blocks_get(--i);
        bool wanted = block->device == device && (!context || block->context == context);
        block->orphan |= wanted && block->making;
        if (wanted && !block->leaves && !block->segment && !block->making) {
            if (block->slab) {
                slab_drop(block);
            }
            discard(block, false);
            i = blocks_count(); /* the table may have changed meanwhile */
        }
    }
}

void memory_freeze(void) { lock_take(&blocks_lock); }

void memory_thaw(void) { lock_drop(&blocks_lock); }

void memory_after_fork(void)
{
    blocks_after_fork();
    slab_after_fork();
    allowances_after_fork();
    pools_after_fork();
    later = NULL;
}
