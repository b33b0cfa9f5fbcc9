#include "simgpu/shared/process_table.h"

#include <errno.h>
#include <string.h>

#include "simgpu/shared/clock_hold.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/slot_set.h"

static unsigned slot_of(const struct sg_process *process)
{
    return (unsigned)(process - sg_state->process);
}

/* ---- processes ---- */

static int holds(const struct sg_export *export, unsigned slot)
{
    return (export->holders[slot / 64] >> (slot % 64) & 1) != 0;
}

static void stop_holding(struct sg_export *export, unsigned slot)
{
    export->holders[slot / 64] &= ~(1ull << (slot % 64));
    for (unsigned i = 0; i < SG_PROCESSES_MAX / 64; i++) {
        if (export->holders[i]) {
            return;
        }
    }
    memset(export, 0, sizeof *export);
}

static void unlink_granule(unsigned device, uint32_t entry)
{
    struct sg_granule *all = sg_state->device[device].granules;
    all[all[entry].previous].next = all[entry].next;
    all[all[entry].next].previous = all[entry].previous;
    all[entry].next = all[entry].previous = 0;
}

static void forget_turns(struct sg_turns *turns, unsigned slot)
{
    sg_slots_remove(turns->busy, slot);
    sg_slots_remove(turns->waiting, slot);
    turns->credit_ns[slot] = 0;
}

void sg_process_free(struct sg_process *process)
{
    unsigned slot = slot_of(process);
    sg_clock_forget(slot);
    for (unsigned d = 0; d < sg_state->machine.count; d++) {
        forget_turns(&sg_state->device[d].turns, slot);
    }
    for (unsigned i = 0; i < sg_state->exports_high; i++) {
        if (sg_state->export[i].bytes && holds(&sg_state->export[i], slot)) {
            stop_holding(&sg_state->export[i], slot);
        }
    }
    for (unsigned d = 0; d < sg_state->machine.count; d++) {
        struct sg_granule *all = sg_state->device[d].granules;
        for (uint32_t i = 1; i <= sg_state->granules_high[d]; i++) {
            if (all[i].process != slot + 1) {
                continue;
            }
            if (!all[i].evicted) {
                unlink_granule(d, i);
            }
            memset(&all[i], 0, sizeof all[i]);
        }
    }
    memset(process, 0, sizeof *process);
}

void sg_reap(void)
{
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        struct sg_process *process = &sg_state->process[i];
        if (process->pid && process != sg_process && !sg_process_lives(process)) {
            sg_process_free(process);
        }
    }
}

/* ---- bytes ---- */

uint64_t sg_process_bytes(const struct sg_process *process, unsigned device)
{
    const struct sg_device_usage *holding = &process->on[device];
    uint64_t bytes = holding->context_bytes + holding->allocated_bytes + holding->managed_bytes;
    unsigned slot = slot_of(process);
    for (unsigned i = 0; i < sg_state->exports_high; i++) {
        const struct sg_export *export = &sg_state->export[i];
        if (!export->bytes || export->device != device || !holds(export, slot)) {
            continue;
        }
        unsigned first = 0;
        while (!holds(export, first)) {
            first++;
        }
        if (first == slot) { /* several hold it, it is there once */
            bytes += export->bytes;
        }
    }
    return bytes;
}

uint64_t sg_used_bytes(unsigned device)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        const struct sg_process *process = &sg_state->process[i];
        if (process->pid) {
            used += process->on[device].context_bytes + process->on[device].allocated_bytes +
                    process->on[device].managed_bytes;
        }
    }
    for (unsigned i = 0; i < sg_state->exports_high; i++) {
        if (sg_state->export[i].bytes && sg_state->export[i].device == device) {
            used += sg_state->export[i].bytes;
        }
    }
    return used;
}

static int fits(unsigned device, uint64_t bytes)
{
    uint64_t used = sg_used_bytes(device), total = sg_state->machine.profile[device].memory_bytes;
    return bytes <= total && used <= total - bytes;
}

/* Evicts the granule that moved in longest ago. Its owner keeps the bytes and handles the eviction before
 * its next work. */
static int evict_one(unsigned device)
{
    struct sg_granule *all = sg_state->device[device].granules;
    uint32_t entry = all[0].next;
    if (!entry) {
        return 0;
    }
    struct sg_process *owner = &sg_state->process[all[entry].process - 1];
    unlink_granule(device, entry);
    all[entry].evicted = 1;
    if (owner->on[device].managed_bytes >= SG_GRANULE_BYTES) {
        owner->on[device].managed_bytes -= SG_GRANULE_BYTES;
    }
    owner->counters.evictions++;
    __atomic_add_fetch(&owner->evicted, 1, __ATOMIC_RELEASE);
    return 1;
}

int sg_make_room(unsigned device, uint64_t bytes, uint64_t *evicted_bytes)
{
    *evicted_bytes = 0;
    if (fits(device, bytes)) {
        return 0;
    }
    sg_reap();
    while (!fits(device, bytes)) {
        if (bytes > sg_state->machine.profile[device].memory_bytes || !evict_one(device)) {
            return -ENOMEM;
        }
        *evicted_bytes += SG_GRANULE_BYTES;
    }
    return 0;
}

/* ---- managed memory ---- */

void sg_relink_granules(unsigned device)
{
    struct sg_granule *all = sg_state->device[device].granules;
    uint32_t last = 0;
    for (uint32_t i = 1; i <= sg_state->granules_high[device]; i++) {
        if (!all[i].process || all[i].evicted) {
            continue;
        }
        all[last].next = i;
        all[i].previous = last;
        last = i;
    }
    all[last].next = 0;
    all[0].previous = last;
}

uint32_t sg_granule_in(unsigned device, uint64_t address)
{
    struct sg_granule *all = sg_state->device[device].granules;
    uint32_t entry = 1;
    while (entry <= sg_state->granules_high[device] && all[entry].process) {
        entry++;
    }
    if (entry >= SG_GRANULES_MAX) {
        return 0;
    }
    if (entry > sg_state->granules_high[device]) {
        sg_state->granules_high[device] = entry;
    }
    all[entry] = (struct sg_granule){.process = slot_of(sg_process) + 1, .address = address};
    all[entry].previous = all[0].previous;
    all[all[0].previous].next = entry;
    all[0].previous = entry;
    sg_process->on[device].managed_bytes += SG_GRANULE_BYTES;
    return entry;
}

void sg_granule_out(unsigned device, uint32_t entry)
{
    struct sg_granule *granule = &sg_state->device[device].granules[entry];
    if (granule->evicted) {
        __atomic_sub_fetch(&sg_process->evicted, 1, __ATOMIC_RELEASE);
    } else {
        unlink_granule(device, entry);
        sg_process->on[device].managed_bytes -= SG_GRANULE_BYTES;
    }
    memset(granule, 0, sizeof *granule);
}

/* ---- shared memory ---- */

static struct sg_export *find_export(uint64_t inode, uint64_t offset)
{
    for (unsigned i = 0; i < sg_state->exports_high; i++) {
        if (sg_state->export[i].bytes && sg_state->export[i].inode == inode &&
            sg_state->export[i].offset == offset) {
            return &sg_state->export[i];
        }
    }
    return NULL;
}

int sg_export_hold(uint64_t inode, uint64_t offset, uint64_t bytes, unsigned device, int *first)
{
    struct sg_export *export = find_export(inode, offset);
    unsigned slot = slot_of(sg_process);
    *first = export == NULL;
    for (unsigned i = 0; !export && i < SG_EXPORTS_MAX; i++) {
        if (!sg_state->export[i].bytes) {
            export = &sg_state->export[i];
            if (i >= sg_state->exports_high) {
                sg_state->exports_high = i + 1;
            }
        }
    }
    if (!export) {
        return -ENOSPC;
    }
    if (*first) {
        *export =
            (struct sg_export){.inode = inode, .offset = offset, .bytes = bytes, .device = device};
        export->serial = ++sg_state->exports_made;
    }
    export->holders[slot / 64] |= 1ull << (slot % 64);
    return 0;
}

uint32_t sg_export_serial(uint64_t inode, uint64_t offset)
{
    const struct sg_export *export = find_export(inode, offset);
    return export ? export->serial : 0;
}

int sg_export_drop(uint64_t inode, uint64_t offset)
{
    struct sg_export *export = find_export(inode, offset);
    if (export) {
        stop_holding(export, slot_of(sg_process));
    }
    return !export || export->bytes == 0;
}
