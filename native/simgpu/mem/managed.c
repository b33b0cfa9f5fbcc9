#include "simgpu/mem/managed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/context/context.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/shared/state.h"

/* The place of a granule. Its bytes are always in this process's memory; the place decides which accesses
 * fault. One page table serves the CPU and the GPU's threads, so GPU work begins with closing all that the
 * host has (sg_managed_arm). */
enum where { NOWHERE, ON_HOST, ON_DEVICE };

struct granule {
    uint8_t where;
    uint8_t open; /* it is on the host, and an access does not fault */
    uint8_t gpu;
    uint32_t entry; /* in the device's list */
};

struct sg_managed {
    struct sg_managed *next;
    uint64_t base;
    size_t count;
    unsigned gpu; /* the GPU of the context that allocated it */
    struct granule granule[];
};

/* The signal handler takes it, so no holder touches managed memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_managed *all;
static unsigned open_granules;

static struct sg_managed *find(uint64_t address)
{
    for (struct sg_managed *one = all; one; one = one->next) {
        if (address >= one->base && address - one->base < one->count * SG_GRANULE_BYTES) {
            return one;
        }
    }
    return NULL;
}

static void set_open(struct granule *granule, uint8_t open)
{
    open_granules += open;
    open_granules -= granule->open;
    granule->open = open;
}

static void protect(struct sg_managed *one, size_t i, int protection)
{
    mprotect((void *)(uintptr_t)(one->base + i * SG_GRANULE_BYTES), SG_GRANULE_BYTES, protection);
}

/* The caller holds the lock. Returns when the bytes arrive; the caller waits for that without the lock. */
static uint64_t to_device(struct sg_managed *one, size_t i, unsigned gpu)
{
    const struct sg_profile *profile = sg_profile_of(gpu);
    struct granule *granule = &one->granule[i];
    uint64_t evicted = 0, now = sg_now_ns();
    sg_lock();
    if (granule->where == ON_DEVICE) {
        sg_granule_out(granule->gpu, granule->entry);
    }
    int error = sg_make_room(gpu, SG_GRANULE_BYTES, &evicted);
    granule->entry = error ? 0 : sg_granule_in(gpu, one->base + i * SG_GRANULE_BYTES);
    sg_unlock();
    uint64_t end = now;
    if (evicted) {
        end = sg_book(gpu, SG_LINK_D2H, now, sg_duration_ns(evicted, profile->d2h_bytes_per_s));
    }
    if (granule->where != NOWHERE) { /* a granule that was never written need not be moved */
        end = sg_book(gpu, SG_LINK_H2D, end,
                      sg_duration_ns(SG_GRANULE_BYTES, profile->h2d_bytes_per_s));
    }
    /* If there is no room, the GPU reads it over the link and faults again. */
    set_open(granule, !granule->entry);
    granule->where = granule->entry ? ON_DEVICE : ON_HOST;
    granule->gpu = (uint8_t)gpu;
    protect(one, i, PROT_READ | PROT_WRITE);
    return end;
}

static uint64_t to_host(struct sg_managed *one, size_t i)
{
    struct granule *granule = &one->granule[i];
    uint64_t end = sg_now_ns();
    if (granule->where == ON_DEVICE) {
        sg_lock();
        int there = !sg_state->device[granule->gpu].granules[granule->entry].evicted;
        sg_granule_out(granule->gpu, granule->entry);
        sg_unlock();
        if (there) { /* otherwise it was moved out already */
            end = sg_book(
                granule->gpu, SG_LINK_D2H, end,
                sg_duration_ns(SG_GRANULE_BYTES, sg_profile_of(granule->gpu)->d2h_bytes_per_s));
        }
    }
    set_open(granule, 1);
    granule->where = ON_HOST;
    protect(one, i, PROT_READ | PROT_WRITE);
    return end;
}

/* Makes granules fault that were evicted for this process or another. The caller holds the lock. */
static void notice_evictions(void)
{
    if (!sg_process || !__atomic_load_n(&sg_process->evicted, __ATOMIC_ACQUIRE)) {
        return;
    }
    for (struct sg_managed *one = all; one; one = one->next) {
        for (size_t i = 0; i < one->count; i++) {
            struct granule *granule = &one->granule[i];
            if (granule->where != ON_DEVICE ||
                !sg_state->device[granule->gpu].granules[granule->entry].evicted) {
                continue;
            }
            protect(one, i, PROT_NONE);
            sg_lock();
            sg_granule_out(granule->gpu, granule->entry);
            sg_unlock();
            granule->where = ON_HOST;
        }
    }
}

CUresult sg_managed_alloc(CUcontext context, CUdeviceptr *out, size_t bytes)
{
    size_t count = (bytes + SG_GRANULE_BYTES - 1) / SG_GRANULE_BYTES;
    struct sg_range *range = calloc(1, sizeof *range);
    struct sg_managed *managed = calloc(1, sizeof *managed + count * sizeof *managed->granule);
    uint64_t base = range && managed ? sg_addresses_alloc(count * SG_GRANULE_BYTES, 0, 0) : 0;
    if (!base ||
        mmap((void *)(uintptr_t)base, count * SG_GRANULE_BYTES, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        free(range);
        free(managed);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    managed->base = base;
    managed->count = count;
    managed->gpu = context->gpu;
    *range = (struct sg_range){.base = base,
                               .size = bytes,
                               .span = count * SG_GRANULE_BYTES,
                               .kind = SG_RANGE_MANAGED,
                               .gpu = context->gpu,
                               .context = context,
                               .managed = managed};
    pthread_mutex_lock(&lock);
    managed->next = all;
    all = managed;
    pthread_mutex_unlock(&lock);
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    *out = base;
    return CUDA_SUCCESS;
}

int sg_managed_fault(uint64_t address, int by_gpu)
{
    if (!all) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    struct sg_managed *one = find(address);
    uint64_t end = 0, cost = 0;
    if (one) {
        size_t i = (address - one->base) / SG_GRANULE_BYTES;
        cost = sg_profile_of(one->gpu)->fault_ns;
        if (by_gpu) {
            end = to_device(one, i, one->gpu);
            notice_evictions();
            if (sg_process) {
                __atomic_add_fetch(&sg_process->counters.faults, 1, __ATOMIC_RELAXED);
            }
        } else {
            end = to_host(one, i);
        }
    }
    pthread_mutex_unlock(&lock);
    if (one) {
        sg_sleep_until(end + cost);
    }
    return one != NULL;
}

void sg_managed_arm(unsigned gpu)
{
    (void)gpu;
    if (!all || !sg_process ||
        (!open_granules && !__atomic_load_n(&sg_process->evicted, __ATOMIC_ACQUIRE))) {
        return;
    }
    pthread_mutex_lock(&lock);
    notice_evictions();
    for (struct sg_managed *one = all; one && open_granules; one = one->next) {
        for (size_t i = 0; i < one->count; i++) {
            if (one->granule[i].open) {
                set_open(&one->granule[i], 0);
                protect(one, i, PROT_NONE);
            }
        }
    }
    pthread_mutex_unlock(&lock);
}

CUresult sg_managed_move(uint64_t address, uint64_t bytes, int gpu)
{
    uint64_t end = 0;
    pthread_mutex_lock(&lock);
    struct sg_managed *one = find(address);
    for (uint64_t at = address; one && at < address + bytes; at += SG_GRANULE_BYTES) {
        size_t i = (at - one->base) / SG_GRANULE_BYTES;
        if (i >= one->count) {
            break;
        }
        if (gpu < 0) {
            end = to_host(one, i);
        } else if (one->granule[i].where != ON_DEVICE || one->granule[i].gpu != gpu) {
            end = to_device(one, i, (unsigned)gpu);
        }
    }
    pthread_mutex_unlock(&lock);
    if (end) {
        sg_sleep_until(end);
    }
    return one ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void sg_managed_free(struct sg_range *range)
{
    struct sg_managed *gone = range->managed;
    pthread_mutex_lock(&lock);
    for (struct sg_managed **at = &all; *at; at = &(*at)->next) {
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    }
    sg_lock();
    for (size_t i = 0; i < gone->count; i++) {
        if (gone->granule[i].where == ON_DEVICE) {
            sg_granule_out(gone->granule[i].gpu, gone->granule[i].entry);
        }
        set_open(&gone->granule[i], 0);
    }
    sg_unlock();
    pthread_mutex_unlock(&lock);
    sg_address_clear(range->base, range->span);
    sg_addresses_free(range->base, range->span);
    free(gone);
}
