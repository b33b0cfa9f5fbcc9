#include "simgpu/mem/peer_access.h"

#include "simgpu/mem/address.h"
#include "simgpu/mem/pool.h"

static int mappings_are_open(uint64_t address, uint64_t end, unsigned gpu, int least)
{
    for (uint64_t at = address; at < end;) {
        struct sg_range *range = sg_ranges_mapped_after(at);
        if (!range || range->base >= end) {
            return 1; /* an unmapped part is not refused here; the access faults */
        }
        if (range->access_of[gpu] < least) {
            return 0;
        }
        at = range->base + range->size;
    }
    return 1;
}

int sg_has_access(uint64_t address, uint64_t bytes, unsigned gpu, int write)
{
    int least = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    int is = 1;
    if (range && range->kind == SG_RANGE_RESERVED) {
        is = mappings_are_open(address, address + bytes, gpu, least);
    } else if (range && range->kind == SG_RANGE_POOLED && range->gpu != gpu && range->pool) {
        is = (int)range->pool->access[gpu] >= least;
    }
    sg_ranges_unlock();
    return is;
}
