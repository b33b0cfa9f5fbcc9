#include "shim/mem/vmm_bind.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/extent.h"

static struct vmm_binding *bindings; /* of several chunks; under extent_lock */

static CUresult bind_part(const struct vmm_binding *binding, uint64_t done,
                          CUmemGenericAllocationHandle memory, uint64_t memory_offset,
                          uint64_t bytes)
{
    uint64_t offset = binding->offset + done;
    switch (binding->call) {
    case VMM_BIND_MULTICAST:
        return DRIVER(cuMulticastBindMem)(binding->object, offset, memory, memory_offset, bytes,
                                          binding->flags);
    case VMM_BIND_MULTICAST_V2:
        return DRIVER(cuMulticastBindMem_v2)(binding->object, binding->device, offset, memory,
                                             memory_offset, bytes, binding->flags);
    default:
        return DRIVER(cuLogicalEndpointBindMem)((CUlogicalEndpointId)binding->object,
                                                binding->device, offset, memory, memory_offset,
                                                bytes, binding->flags);
    }
}

static CUresult unbind_part(const struct vmm_binding *binding, uint64_t done, uint64_t bytes)
{
    uint64_t offset = binding->offset + done;
    return binding->call == VMM_BIND_ENDPOINT
               ? DRIVER(cuLogicalEndpointUnbind)((CUlogicalEndpointId)binding->object,
                                                 binding->device, offset, bytes)
               : DRIVER(cuMulticastUnbind)(binding->object, binding->device, offset, bytes);
}

/* The bytes of the part that begins `done` bytes after the start of the binding: it ends with its chunk. */
static uint64_t part_bytes(const struct vmm_binding *binding, uint64_t done)
{
    uint64_t inside = (binding->memory_offset + done) % binding->chunk_bytes;
    uint64_t left = binding->bytes - done;
    return left < binding->chunk_bytes - inside ? left : binding->chunk_bytes - inside;
}

/* Unbinds the first `end` bytes; the last error. */
static CUresult unbind(const struct vmm_binding *binding, uint64_t end)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t done = 0; done < end; done += part_bytes(binding, done)) {
        CUresult one = unbind_part(binding, done, part_bytes(binding, done));
        result = one == CUDA_SUCCESS ? result : one;
    }
    return result;
}

static CUresult bind_parts(const struct extent *extent, const struct vmm_binding *binding)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t done = 0;
    while (done < binding->bytes) {
        uint64_t at = binding->memory_offset + done;
        uint64_t bytes = part_bytes(binding, done);
        const struct chunk *chunk = &extent->chunks[at / binding->chunk_bytes];
        result = chunk_has_memory(chunk)
                     ? bind_part(binding, done, chunk->handle, at % binding->chunk_bytes, bytes)
                     : CUDA_ERROR_OUT_OF_MEMORY; /* its context is broken */
        if (result != CUDA_SUCCESS) {
            unbind(binding, done);
            return result;
        }
        done += bytes;
    }
    return result;
}

/* The list's pointer to the binding at this place; to NULL if there is none. */
static struct vmm_binding **find(bool endpoint, uint64_t object, CUdevice device, uint64_t offset)
{
    struct vmm_binding **at = &bindings;
    while (*at && ((*at)->object != object || (*at)->device != device || (*at)->offset != offset ||
                   ((*at)->call == VMM_BIND_ENDPOINT) != endpoint)) {
        at = &(*at)->next;
    }
    return at;
}

/* Ends what the list has at this place. */
static void forget(struct vmm_binding **at)
{
    struct vmm_binding *gone = *at;
    if (gone) {
        *at = gone->next;
        free(gone);
    }
}

/* The driver has bound it, so what the list has at its place is of an object that is gone. */
static void remember(struct vmm_binding *made)
{
    LOCK_SCOPE(&extent_lock);
    forget(find(made->call == VMM_BIND_ENDPOINT, made->object, made->device, made->offset));
    made->next = bindings;
    bindings = made;
}

CUresult vmm_bind(const struct extent *extent, const struct vmm_binding *binding)
{
    if (extent->chunk_count == 1 && chunk_has_memory(&extent->chunks[0])) {
        return bind_part(binding, 0, extent->chunks[0].handle, binding->memory_offset,
                         binding->bytes);
    }
    if (!binding->bytes || binding->memory_offset >= extent->span ||
        binding->bytes > extent->span - binding->memory_offset) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct vmm_binding *made = malloc(sizeof(*made));
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = *binding;
    made->chunk_bytes = extent->chunks[0].bytes;
    if (made->call == VMM_BIND_MULTICAST) {
        made->device = extent->device->ordinal;
    }
    CUresult result = bind_parts(extent, made);
    if (result == CUDA_SUCCESS) {
        remember(made);
    } else {
        free(made);
    }
    return result;
}

CUresult vmm_bind_foreign(CUmemGenericAllocationHandle memory, const struct vmm_binding *binding)
{
    return bind_part(binding, 0, memory, binding->memory_offset, binding->bytes);
}

bool vmm_unbind(bool endpoint, uint64_t object, CUdevice device, uint64_t offset, CUresult *result)
{
    struct vmm_binding **at = find(endpoint, object, device, offset);
    if (!*at) {
        return false;
    }
    *result = unbind(*at, (*at)->bytes);
    forget(at);
    return true;
}

void vmm_bind_after_fork(void) { bindings = NULL; }
