#include "simgpu/mem/allocation.h"

#include <pthread.h>

#include "simgpu/base/handles.h"
#include "simgpu/mem/chunk.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sg_allocations_lock(void) { pthread_mutex_lock(&lock); }

void sg_allocations_unlock(void) { pthread_mutex_unlock(&lock); }

struct sg_chunk *sg_allocation(CUmemGenericAllocationHandle handle)
{
    struct sg_chunk *chunk = (struct sg_chunk *)(uintptr_t)handle;
    return sg_handle_is(chunk, SG_CHUNK) ? chunk : NULL;
}
