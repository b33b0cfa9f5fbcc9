#include "shim/mem/vmm_mappings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct vmm_mapping **table;
static size_t count;
static size_t room;

/* Index of the first that ends above `address`. */
static size_t after(CUdeviceptr address)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle]->base + table[middle]->bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int vmm_mappings_insert(struct vmm_mapping *mapping)
{
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        struct vmm_mapping **grown = realloc(table, more * sizeof(struct vmm_mapping *));
        if (!grown) {
            return -ENOMEM;
        }
        table = grown;
        room = more;
    }
    size_t at = after(mapping->base);
    memmove(table + at + 1, table + at, (count - at) * sizeof(struct vmm_mapping *));
    table[at] = mapping;
    count++;
    return 0;
}

void vmm_mappings_remove(struct vmm_mapping *mapping)
{
    size_t at = after(mapping->base);
    if (at < count && table[at] == mapping) {
        count--;
        memmove(table + at, table + at + 1, (count - at) * sizeof(struct vmm_mapping *));
    }
}

struct vmm_mapping *vmm_mappings_after(CUdeviceptr address)
{
    size_t at = after(address);
    return at < count ? table[at] : NULL;
}

struct vmm_mapping *vmm_mappings_find(CUdeviceptr address)
{
    struct vmm_mapping *found = vmm_mappings_after(address);
    return found && found->base <= address ? found : NULL;
}

bool vmm_mappings_are_whole(CUdeviceptr address, uint64_t bytes)
{
    CUdeviceptr end = address + bytes;
    for (size_t i = after(address); i < count && table[i]->base < end; i++) {
        if (table[i]->base < address || table[i]->bytes > end - table[i]->base) {
            return false;
        }
    }
    return true;
}

static CUmemAccessDesc *find_access(const struct vmm_mapping *mapping,
                                    const CUmemLocation *location)
{
    for (uint32_t i = 0; i < mapping->access_count; i++) {
        CUmemAccessDesc *access = &mapping->access[i];
        if (access->location.type == location->type && access->location.id == location->id) {
            return access;
        }
    }
    return NULL;
}

int vmm_mapping_allow(struct vmm_mapping *mapping, const CUmemAccessDesc *access, size_t wanted)
{
    for (size_t i = 0; i < wanted; i++) {
        CUmemAccessDesc *known = find_access(mapping, &access[i].location);
        if (!known) {
            size_t bytes = (mapping->access_count + 1) * sizeof(*known);
            CUmemAccessDesc *grown = realloc(mapping->access, bytes);
            if (!grown) {
                return -ENOMEM;
            }
            mapping->access = grown;
            known = &grown[mapping->access_count++];
        }
        *known = access[i];
    }
    return 0;
}

unsigned vmm_mapping_access(const struct vmm_mapping *mapping, const CUmemLocation *location)
{
    const CUmemAccessDesc *known = find_access(mapping, location);
    return known ? (unsigned)known->flags : 0;
}

void vmm_mappings_after_fork(void) { count = 0; }
