#include "shim/mem/peer_access.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/streams.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"

/* Under extent_lock. */
static struct opening {
    struct opener by;
    struct device *owner;
    CUdevice peer;
} *openings;
static size_t opening_count;

static struct opening *find(const struct device *owner, CUdevice peer, const struct opener *by)
{
    for (size_t i = 0; i < opening_count; i++) {
        struct opening *o = &openings[i];
        if (o->owner == owner && o->peer == peer &&
            (!by || (o->by.who == by->who && o->by.of == by->of))) {
            return o;
        }
    }
    return NULL;
}

static bool add(struct device *owner, CUdevice peer, struct opener by)
{
    if (find(owner, peer, &by)) {
        return true;
    }
    struct opening *grown = realloc(openings, (opening_count + 1) * sizeof(*openings));
    if (grown) {
        openings = grown;
        openings[opening_count++] = (struct opening){by, owner, peer};
    }
    return grown != NULL;
}

static void drop(struct opening *opening) { *opening = openings[--opening_count]; }

/* What is present of an extent; the rest is opened, or not, when it is mapped. */
static CUresult set_block(const struct extent *extent, uint64_t peers, CUmemAccess_flags access)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t i = 0;
    while (i < extent->chunk_count && result == CUDA_SUCCESS) {
        CUdeviceptr at = extent->base + (uint64_t)i * extent->chunks[0].bytes;
        uint64_t bytes = 0;
        while (i < extent->chunk_count && chunk_has_memory(&extent->chunks[i])) {
            bytes += extent->chunks[i++].bytes;
        }
        result = bytes ? chunks_access(at, bytes, peers, access) : CUDA_SUCCESS;
        i += bytes == 0;
    }
    return result;
}

static CUresult set_all(const struct device *owner, CUdevice peer, CUmemAccess_flags access)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < extent_table_count() && result == CUDA_SUCCESS; i++) {
        const struct extent *extent = extent_table_get(i);
        bool is_mine = extent->device == owner && extent->ops->kind == EXTENT_PLACED;
        result = is_mine ? set_block(extent, 1ull << peer, access) : CUDA_SUCCESS;
    }
    return result;
}

CUresult peer_access_allow(struct device *owner, CUdevice peer, struct opener opener)
{
    if (peer < 0 || peer >= 64) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    uint64_t bit = 1ull << peer;
    CUresult result = CUDA_SUCCESS;
    LOCK_SCOPE(&extent_lock);
    if (!(owner->peers & bit)) {
        result = set_all(owner, peer, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    if (result == CUDA_SUCCESS && !add(owner, peer, opener)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        owner->peers |= bit;
    }
    return result;
}

/* With extent_lock: closes the device's memory to the peer if no opener holds it open any more. */
static CUresult close_unheld(struct device *owner, CUdevice peer)
{
    if (find(owner, peer, NULL) || !(owner->peers >> peer & 1)) {
        return CUDA_SUCCESS;
    }
    owner->peers &= ~(1ull << peer);
    return set_all(owner, peer, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

CUresult peer_access_refuse(struct device *owner, CUdevice peer, struct opener opener)
{
    LOCK_SCOPE(&extent_lock);
    struct opening *opening = find(owner, peer, &opener);
    if (!opening) {
        return CUDA_SUCCESS;
    }
    drop(opening);
    return close_unheld(owner, peer);
}

void peer_access_forget(const void *which)
{
    LOCK_SCOPE(&extent_lock);
    for (size_t i = 0; which && i < opening_count;) {
        struct opening gone = openings[i];
        if (gone.by.who == which || gone.by.of == which) {
            drop(&openings[i]);
            close_unheld(gone.owner, gone.peer);
        } else {
            i++;
        }
    }
}

void peer_access_after_fork(void) { opening_count = 0; }

static bool await_device(const struct device *device, CUresult *result)
{
    uint32_t place = CONTEXTS_ALL;
    CUcontext context;
    bool waited = true;
    while (waited && *result == CUDA_SUCCESS &&
           (context = device_next_context(device, &place)) != NULL) {
        if (DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS) {
            waited = streams_synchronise(result);
            device_pop();
        }
    }
    return waited;
}

bool peer_access_await(const struct device *owner, CUresult *result)
{
    struct mw_slot *slot = gate_block();
    bool waited = true;
    for (struct device *d = device_next(NULL); d && waited; d = device_next(d)) {
        if ((owner->peers | owner->crossed) >> d->ordinal & 1) {
            waited = await_device(d, result);
        }
    }
    gate_unblock(slot);
    return waited;
}
