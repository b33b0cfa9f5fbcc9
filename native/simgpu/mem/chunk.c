#include "simgpu/mem/chunk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simgpu/base/devices.h"
#include "simgpu/mem/granule_store.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/shared/state.h"

#define TOKEN_MAGIC 0x6b6f7473u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_chunk
    *shared_chunks; /* one object for each, also if a process imports it more than once */

static CUresult charge(unsigned gpu, uint64_t bytes, uint64_t *counter)
{
    uint64_t evicted = 0;
    sg_lock();
    int error = sg_make_room(gpu, bytes, &evicted);
    if (!error) {
        *counter += bytes;
    }
    sg_unlock();
    if (evicted) { /* managed memory was evicted over the link first */
        sg_sleep_until(sg_book(gpu, SG_LINK_D2H, sg_now_ns(),
                               sg_duration_ns(evicted, sg_profile_of(gpu)->d2h_bytes_per_s)));
    }
    return error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sg_charge_context(unsigned gpu, int64_t bytes)
{
    if (bytes >= 0) {
        return charge(gpu, (uint64_t)bytes, &sg_process->on[gpu].context_bytes);
    }
    sg_lock();
    sg_process->on[gpu].context_bytes -= (uint64_t)-bytes;
    sg_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_chunk_create(struct sg_chunk **out, unsigned gpu, uint64_t bytes,
                         const CUmemAllocationProp *prop)
{
    uint64_t offset;
    struct sg_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = charge(gpu, bytes, &sg_process->on[gpu].allocated_bytes);
    if (result) {
        free(chunk);
        return result;
    }
    result = sg_granule_store_alloc(gpu, bytes, &offset);
    if (result) {
        sg_lock();
        sg_process->on[gpu].allocated_bytes -= bytes;
        sg_unlock();
        free(chunk);
        return result;
    }
    *chunk = (struct sg_chunk){.gpu = gpu,
                               .refs = 1,
                               .file = sg_granule_store_file(),
                               .inode = sg_granule_store_inode(),
                               .offset = offset,
                               .bytes = bytes};
    if (prop) {
        chunk->prop = *prop;
    }
    *out = chunk;
    return CUDA_SUCCESS;
}

void sg_chunk_ref(struct sg_chunk *chunk) { __atomic_add_fetch(&chunk->refs, 1, __ATOMIC_ACQ_REL); }

void sg_chunk_unref(struct sg_chunk *chunk)
{
    int gone = 1;
    pthread_mutex_lock(&lock); /* no thread may adopt it meanwhile */
    int left = __atomic_sub_fetch(&chunk->refs, 1, __ATOMIC_ACQ_REL);
    for (struct sg_chunk **at = &shared_chunks; left == 0 && chunk->shared && *at;
         at = &(*at)->next_shared) {
        if (*at == chunk) {
            *at = chunk->next_shared;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (left > 0) {
        return;
    }
    sg_lock();
    if (chunk->shared) {
        gone = sg_export_drop(chunk->inode, chunk->offset);
    } else {
        sg_process->on[chunk->gpu].allocated_bytes -= chunk->bytes;
    }
    sg_unlock();
    if (!chunk->own_file && gone) { /* else another process still uses it */
        sg_granule_store_free(chunk->gpu, chunk->offset, chunk->bytes);
    } else if (chunk->own_file) {
        if (gone) {
            fallocate(chunk->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)chunk->offset,
                      (off_t)chunk->bytes);
        }
        close(chunk->file);
    }
    free(chunk);
}

CUresult sg_chunk_map(struct sg_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t offset,
                      int protection)
{
    void *at = (void *)(uintptr_t)address;
    if (!chunk->own_file && sg_granule_store_map(chunk->offset + offset, address, bytes) == 0) {
        return mprotect(at, bytes, protection) == 0 ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
    }
    at = mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, chunk->file,
              (off_t)(chunk->offset + offset));
    return at == MAP_FAILED ? CUDA_ERROR_MAP_FAILED : CUDA_SUCCESS;
}

void sg_chunk_unmap(struct sg_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t offset)
{
    if (!chunk->own_file) {
        sg_granule_store_unmap(chunk->offset + offset, address, bytes);
    }
}

CUresult sg_chunk_share(struct sg_chunk *chunk, struct sg_token *token)
{
    int first, error = 0;
    pthread_mutex_lock(&lock);
    sg_lock();
    if (!chunk->shared) {
        error = sg_export_hold(chunk->inode, chunk->offset, chunk->bytes, chunk->gpu, &first);
        if (!error) { /* from now on it is counted once for all processes */
            sg_process->on[chunk->gpu].allocated_bytes -= chunk->bytes;
            chunk->shared = 1;
            chunk->serial = sg_export_serial(chunk->inode, chunk->offset);
            chunk->next_shared = shared_chunks;
            shared_chunks = chunk;
        }
    }
    sg_unlock();
    pthread_mutex_unlock(&lock);
    *token = (struct sg_token){.magic = TOKEN_MAGIC,
                               .pid = (uint32_t)getpid(),
                               .file = chunk->file,
                               .inode = chunk->inode,
                               .offset = chunk->offset,
                               .bytes = chunk->bytes,
                               .serial = chunk->serial,
                               .gpu = chunk->gpu};
    return error ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult open_shared(struct sg_chunk **out, const struct sg_token *token)
{
    char path[64];
    struct stat status;
    int first = 1, error = -ENOENT;
    snprintf(path, sizeof path, "/proc/%u/fd/%d", token->pid, token->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        return CUDA_ERROR_INVALID_VALUE; /* the exporter has ended */
    }
    struct sg_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk || fstat(file, &status) != 0 || status.st_ino != token->inode) {
        close(file);
        free(chunk);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_lock();
    if (sg_export_serial(token->inode, token->offset) == token->serial) { /* not freed meanwhile */
        error = sg_export_hold(token->inode, token->offset, token->bytes, token->gpu, &first);
    }
    sg_unlock();
    if (error) {
        close(file);
        free(chunk);
        return error == -ENOENT ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *chunk = (struct sg_chunk){.gpu = token->gpu,
                               .refs = 1,
                               .file = file,
                               .own_file = 1,
                               .shared = 1,
                               .inode = token->inode,
                               .offset = token->offset,
                               .bytes = token->bytes,
                               .serial = token->serial,
                               .next_shared = shared_chunks};
    chunk->prop =
        (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                              .location = {CU_MEM_LOCATION_TYPE_DEVICE, sg_ordinal_of(token->gpu)}};
    shared_chunks = chunk;
    *out = chunk;
    return CUDA_SUCCESS;
}

CUresult sg_chunk_adopt(struct sg_chunk **out, const struct sg_token *token)
{
    CUresult result = CUDA_SUCCESS;
    if (token->magic != TOKEN_MAGIC || token->gpu >= sg_state->machine.count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    struct sg_chunk *chunk = shared_chunks;
    while (chunk && (chunk->inode != token->inode || chunk->offset != token->offset ||
                     chunk->serial != token->serial)) {
        chunk = chunk->next_shared;
    }
    if (chunk) {
        sg_chunk_ref(chunk);
    } else {
        result = open_shared(&chunk, token);
    }
    pthread_mutex_unlock(&lock);
    *out = chunk;
    return result;
}
