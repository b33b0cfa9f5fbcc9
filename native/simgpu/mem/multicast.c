#include "simgpu/mem/multicast.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simgpu/base/handles.h"
#include "simgpu/mem/allocation.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/shared/state.h"

#define MAGIC 0x6d636173u
#define BOUND_MAX 256u

struct bound {
    uint64_t offset, bytes;
    uint64_t chunk_offset;
    struct sg_token token; /* where the chunk is */
};

/* Under the lock of the shared state. */
struct page {
    uint32_t magic, wanted; /* how many GPUs it is for */
    uint64_t bytes, handle_types;
    uint32_t gpus; /* those that were added, one bit each */
    uint32_t count;
    struct bound bound[BOUND_MAX];
};

/* A chunk that this process has bound; under the allocations' lock. */
struct held {
    struct held *next;
    struct sg_chunk *chunk;
    uint64_t offset;
};

struct sg_multicast {
    int refs; /* handles and mappings */
    int handles;
    int file;
    struct page *page;
    struct held *held;
};

/* ---- life ---- */

static CUresult open_page(struct sg_multicast **out, int file)
{
    struct sg_multicast *made = calloc(1, sizeof *made);
    void *at = made ? mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                    : MAP_FAILED;
    if (at == MAP_FAILED) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct sg_multicast){.refs = 1, .file = file, .page = at};
    *out = made;
    return CUDA_SUCCESS;
}

CUresult sg_multicast_create(struct sg_multicast **out, const CUmulticastObjectProp *prop)
{
    int file = (int)syscall(SYS_memfd_create, "simgpu-multicast", 1u /* MFD_CLOEXEC */);
    if (file < 0 || ftruncate(file, sizeof(struct page)) != 0) {
        if (file >= 0) {
            close(file);
        }
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    CUresult result = open_page(out, file);
    if (result) {
        close(file);
        return result;
    }
    *(*out)->page = (struct page){.magic = MAGIC,
                                  .wanted = prop->numDevices,
                                  .bytes = prop->size,
                                  .handle_types = prop->handleTypes};
    return CUDA_SUCCESS;
}

struct sg_multicast *sg_multicast_of(CUmemGenericAllocationHandle handle)
{
    struct sg_multicast *object = (struct sg_multicast *)(uintptr_t)handle;
    return sg_handle_is(object, SG_MULTICAST) ? object : NULL;
}

CUmemGenericAllocationHandle sg_multicast_give_handle(struct sg_multicast *object)
{
    if (object->handles++ == 0) {
        sg_handle_add(object, SG_MULTICAST);
    }
    return (CUmemGenericAllocationHandle)(uintptr_t)object;
}

void sg_multicast_take_handle(struct sg_multicast *object)
{
    if (object && --object->handles == 0) {
        sg_handle_remove(object, SG_MULTICAST);
    }
}

void sg_multicast_ref(struct sg_multicast *object)
{
    __atomic_add_fetch(&object->refs, 1, __ATOMIC_ACQ_REL);
}

/* With the lock of the shared state: ends the binding at this place of the list. */
static void drop_bound(struct page *page, uint32_t at)
{
    page->bound[at] = page->bound[--page->count];
}

static int is_bound_to(const struct bound *bound, unsigned gpu, uint64_t offset)
{
    return bound->token.gpu == gpu && bound->offset == offset;
}

void sg_multicast_unref(struct sg_multicast *object)
{
    if (__atomic_sub_fetch(&object->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    for (struct held *held = object->held, *next; held; held = next) {
        sg_lock();
        for (uint32_t i = object->page->count; i > 0; i--) {
            if (is_bound_to(&object->page->bound[i - 1], held->chunk->gpu, held->offset)) {
                drop_bound(object->page, i - 1);
            }
        }
        sg_unlock();
        next = held->next;
        sg_chunk_unref(held->chunk);
        free(held);
    }
    munmap(object->page, sizeof *object->page);
    close(object->file);
    free(object);
}

uint64_t sg_multicast_bytes(const struct sg_multicast *object) { return object->page->bytes; }

/* ---- GPUs and memory ---- */

CUresult sg_multicast_add_device(struct sg_multicast *object, unsigned gpu)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    struct page *page = object->page;
    if (!(page->gpus >> gpu & 1) && (unsigned)__builtin_popcount(page->gpus) < page->wanted) {
        page->gpus |= 1u << gpu;
        result = CUDA_SUCCESS;
    }
    sg_unlock();
    return result;
}

void sg_multicast_await_devices(const struct sg_multicast *object)
{
    const struct timespec pause = {0, 1000000};
    for (;;) {
        sg_lock();
        int complete = (unsigned)__builtin_popcount(object->page->gpus) == object->page->wanted;
        sg_unlock();
        if (complete) {
            return;
        }
        nanosleep(&pause, NULL);
    }
}

static int fits(uint64_t offset, uint64_t bytes, uint64_t all)
{
    return bytes && offset % SG_BLOCK_BYTES == 0 && bytes % SG_BLOCK_BYTES == 0 && offset < all &&
           bytes <= all - offset;
}

/* With the lock of the shared state. */
static CUresult add_bound(struct page *page, const struct sg_multicast_part *part,
                          const struct sg_token *token)
{
    if (!(page->gpus >> token->gpu & 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < page->count; i++) {
        const struct bound *bound = &page->bound[i];
        if (bound->token.gpu == token->gpu && part->offset < bound->offset + bound->bytes &&
            bound->offset < part->offset + part->bytes) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (page->count == BOUND_MAX) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    page->bound[page->count++] =
        (struct bound){part->offset, part->bytes, part->chunk_offset, *token};
    return CUDA_SUCCESS;
}

/* Where the chunk is: for other processes, if they can have the object. */
static CUresult place_of(const struct page *page, struct sg_chunk *chunk, struct sg_token *token)
{
    *token = (struct sg_token){.gpu = chunk->gpu, .inode = chunk->inode, .offset = chunk->offset};
    if (!page->handle_types) {
        token->pid = (uint32_t)getpid();
        token->file = chunk->file;
        return CUDA_SUCCESS;
    }
    return chunk->prop.requestedHandleTypes & page->handle_types ? sg_chunk_share(chunk, token)
                                                                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_multicast_bind(struct sg_multicast *object, const struct sg_multicast_part *part)
{
    struct sg_token token;
    if (!fits(part->offset, part->bytes, object->page->bytes) ||
        !fits(part->chunk_offset, part->bytes, part->chunk->bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct held *held = calloc(1, sizeof *held);
    CUresult result = held ? place_of(object->page, part->chunk, &token) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        sg_lock();
        result = add_bound(object->page, part, &token);
        sg_unlock();
    }
    if (result) {
        free(held);
        return result;
    }
    sg_chunk_ref(part->chunk);
    sg_allocations_lock();
    *held = (struct held){object->held, part->chunk, part->offset};
    object->held = held;
    sg_allocations_unlock();
    return CUDA_SUCCESS;
}

/* What this process holds of a GPU's memory at an offset is not in the list any more. */
static void let_go(struct sg_multicast *object, unsigned gpu, uint64_t offset)
{
    struct held *gone = NULL;
    sg_allocations_lock();
    struct held **at = &object->held;
    while (*at && ((*at)->chunk->gpu != gpu || (*at)->offset != offset)) {
        at = &(*at)->next;
    }
    if (*at) {
        gone = *at;
        *at = gone->next;
    }
    sg_allocations_unlock();
    if (gone) {
        sg_chunk_unref(gone->chunk);
        free(gone);
    }
}

CUresult sg_multicast_unbind(struct sg_multicast *object, unsigned gpu, uint64_t offset,
                             uint64_t bytes)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    for (uint32_t i = object->page->count; i > 0; i--) {
        const struct bound *bound = &object->page->bound[i - 1];
        if (is_bound_to(bound, gpu, offset) && bound->bytes == bytes) {
            drop_bound(object->page, i - 1);
            result = CUDA_SUCCESS;
        }
    }
    sg_unlock();
    if (!result) {
        let_go(object, gpu, offset);
    }
    return result;
}

/* ---- between processes ---- */

CUresult sg_multicast_export(const struct sg_multicast *object, int *file)
{
    if (!object->page->handle_types) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *file = fcntl(object->file, F_DUPFD_CLOEXEC, 0);
    return *file < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult sg_multicast_import(struct sg_multicast **out, int file)
{
    uint32_t magic = 0;
    if (pread(file, &magic, sizeof magic, 0) != (ssize_t)sizeof magic || magic != MAGIC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
    CUresult result = own < 0 ? CUDA_ERROR_OPERATING_SYSTEM : open_page(out, own);
    if (result && own >= 0) {
        close(own);
    }
    return result;
}

/* ---- accesses ---- */

/* The part that is bound of a GPU at an offset, and how many bytes follow there. */
static int find_bound(const struct page *page, unsigned gpu, uint64_t offset, struct bound *found)
{
    for (uint32_t i = 0; i < page->count; i++) {
        const struct bound *bound = &page->bound[i];
        if (bound->token.gpu == gpu && offset >= bound->offset &&
            offset - bound->offset < bound->bytes) {
            *found = *bound;
            return 1;
        }
    }
    return 0;
}

/* Copies words by the file that holds them: the chunk may be mapped nowhere. */
static int copy_words(const struct bound *bound, uint64_t offset, uint64_t *words, size_t bytes,
                      int writes)
{
    struct sg_chunk *chunk = NULL;
    int file = bound->token.file;
    if (bound->token.pid != (uint32_t)getpid()) {
        if (sg_chunk_adopt(&chunk, &bound->token) != CUDA_SUCCESS) {
            return 0;
        }
        file = chunk->file;
    }
    off_t at = (off_t)(bound->token.offset + bound->chunk_offset + (offset - bound->offset));
    ssize_t done = writes ? pwrite(file, words, bytes, at) : pread(file, words, bytes, at);
    if (chunk) {
        sg_chunk_unref(chunk);
    }
    return done == (ssize_t)bytes;
}

uint64_t sg_multicast_move(const struct sg_multicast *object, unsigned gpu, uint64_t offset,
                           uint64_t *words, uint64_t count, int writes)
{
    struct bound bound;
    sg_lock();
    int found = find_bound(object->page, gpu, offset, &bound);
    sg_unlock();
    if (!found) {
        return 0;
    }
    uint64_t left = (bound.bytes - (offset - bound.offset)) / sizeof *words;
    count = left < count ? left : count;
    return copy_words(&bound, offset, words, count * sizeof *words, writes) ? count : 0;
}

int sg_multicast_has(const struct sg_multicast *object, unsigned gpu)
{
    return (object->page->gpus >> gpu & 1) != 0;
}
