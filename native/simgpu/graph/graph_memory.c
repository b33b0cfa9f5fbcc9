#include "simgpu/graph/graph_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/graph/graph_reuse.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/stream/stream.h"

struct sg_graph_memory {
    struct sg_graph_memory *next;
    int refs; /* of the range while it is allocated, and of work that names it */
    unsigned gpu;
    size_t bytes;
    uint64_t base, span;
    struct sg_chunk *chunk; /* NULL: nothing is behind it */
    struct sg_range *range;
    int allocated, claimed;
    int unfreed;     /* work was made that allocates it, and none yet that frees it again */
    CUstream stream; /* of the last launch, or free */
    uint64_t number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_graph_memory *all;
static struct sg_graph_memory_sums sums[SG_DEVICES_MAX];

static void count(unsigned gpu, int64_t used, int64_t reserved)
{
    sums[gpu].used += (uint64_t)used;
    sums[gpu].reserved += (uint64_t)reserved;
    if (sums[gpu].used > sums[gpu].used_high) {
        sums[gpu].used_high = sums[gpu].used;
    }
    if (sums[gpu].reserved > sums[gpu].reserved_high) {
        sums[gpu].reserved_high = sums[gpu].reserved;
    }
}

/* ---- memory; the lock is held ---- */

static CUresult map_memory(struct sg_graph_memory *memory)
{
    if (memory->chunk) {
        return CUDA_SUCCESS;
    }
    SG_TRY(sg_chunk_create(&memory->chunk, memory->gpu, memory->span, NULL));
    CUresult result =
        sg_chunk_map(memory->chunk, memory->base, memory->span, 0, PROT_READ | PROT_WRITE);
    if (result) {
        sg_chunk_unref(memory->chunk);
        memory->chunk = NULL;
        return result;
    }
    sg_ranges_lock();
    memory->range->chunk = memory->chunk;
    sg_ranges_unlock();
    count(memory->gpu, 0, (int64_t)memory->span);
    return CUDA_SUCCESS;
}

static void unmap_memory(struct sg_graph_memory *memory)
{
    if (!memory->chunk) {
        return;
    }
    sg_chunk_unmap(memory->chunk, memory->base, memory->span, 0);
    sg_address_clear(memory->base, memory->span);
    sg_chunk_unref(memory->chunk);
    memory->chunk = NULL;
    count(memory->gpu, 0, -(int64_t)memory->span);
}

static void set_allocated(struct sg_graph_memory *memory, int allocated)
{
    if (memory->allocated == allocated) {
        return;
    }
    memory->allocated = allocated;
    memory->refs += allocated ? 1 : -1;
    count(memory->gpu, allocated ? (int64_t)memory->span : -(int64_t)memory->span, 0);
}

static void note_work(struct sg_graph_memory *memory, CUstream stream)
{
    sg_stream_ref(stream);
    if (memory->stream) {
        sg_stream_unref(memory->stream);
    }
    memory->stream = stream;
    pthread_mutex_lock(&stream->context->lock);
    memory->number = stream->submitted;
    pthread_mutex_unlock(&stream->context->lock);
}

/* The caller holds the lock. */
static void remove_if_unused(struct sg_graph_memory *memory)
{
    if (memory->refs > 0 || (memory->stream && !sg_stream_done(memory->stream, memory->number))) {
        return; /* memory with pending work is freed when the next one is made */
    }
    struct sg_graph_memory **at = &all;
    while (*at != memory) {
        at = &(*at)->next;
    }
    *at = memory->next;
    sg_ranges_lock();
    sg_ranges_remove(memory->range);
    sg_ranges_unlock();
    unmap_memory(memory);
    sg_addresses_free(memory->base, memory->span);
    if (memory->stream) {
        sg_stream_unref(memory->stream);
    }
    free(memory->range);
    free(memory);
}

static void copy(struct sg_op *op)
{
    pthread_mutex_lock(&lock);
    op->memory->refs++;
    pthread_mutex_unlock(&lock);
}

static void release(struct sg_op *op)
{
    pthread_mutex_lock(&lock);
    op->memory->refs--;
    remove_if_unused(op->memory);
    pthread_mutex_unlock(&lock);
}

/* Allocating and freeing is done at the launch. */
const struct sg_op_kind sg_kind_graph_alloc = {.name = "memory allocation node",
                                               .is_capturable = 1,
                                               .node_type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                               .copy = copy,
                                               .release = release};
const struct sg_op_kind sg_kind_graph_free = {.name = "memory free node",
                                              .is_capturable = 1,
                                              .node_type = CU_GRAPH_NODE_TYPE_MEM_FREE,
                                              .copy = copy,
                                              .release = release};

static struct sg_graph_memory *find(CUdeviceptr address)
{
    struct sg_graph_memory *memory = all;
    while (memory && memory->base != address) {
        memory = memory->next;
    }
    return memory;
}

/* ---- work ---- */

/* The smallest memory of the graph that work behind `after` can have once more; NULL: there is none. */
static struct sg_graph_memory *reuse(CUgraph graph, const CUgraphNode *after, size_t count,
                                     unsigned gpu, size_t bytes)
{
    struct sg_graph_memory *found = NULL;
    pthread_mutex_lock(&lock);
    for (CUgraphNode node = graph->first; node; node = node->next) {
        const struct sg_op *op = node->op;
        struct sg_graph_memory *memory = op && op->kind == &sg_kind_graph_free ? op->memory : NULL;
        if (memory && memory->gpu == gpu && memory->bytes >= bytes && !memory->unfreed &&
            (!found || memory->bytes < found->bytes) &&
            sg_graph_memory_is_free(graph, memory, after, count)) {
            found = memory;
        }
    }
    if (found) {
        found->refs++;
        found->unfreed = 1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void make_op(struct sg_op **op, struct sg_graph_memory *memory, size_t bytes,
                    CUdeviceptr *address)
{
    *op = sg_op_new(&sg_kind_graph_alloc);
    (*op)->memory = memory;
    (*op)->memory_bytes = bytes;
    *address = memory->base;
}

CUresult sg_graph_alloc_op(struct sg_op **op, CUgraph graph, const CUgraphNode *after, size_t count,
                           unsigned gpu, size_t bytes, CUdeviceptr *address)
{
    if (!bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > sg_profile_of(gpu)->memory_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sg_graph_memory *again = reuse(graph, after, count, gpu, bytes);
    if (again) {
        make_op(op, again, bytes, address);
        return CUDA_SUCCESS;
    }
    struct sg_graph_memory *made = calloc(1, sizeof *made);
    struct sg_range *range = calloc(1, sizeof *range);
    uint64_t span = (bytes + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1);
    uint64_t base = made && range ? sg_addresses_alloc(span, 0, 0) : 0;
    if (!base) {
        free(made);
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range = (struct sg_range){
        .base = base, .size = bytes, .span = span, .kind = SG_RANGE_GRAPH_MEMORY, .gpu = gpu};
    *made = (struct sg_graph_memory){.refs = 1,
                                     .gpu = gpu,
                                     .bytes = bytes,
                                     .base = base,
                                     .span = span,
                                     .range = range,
                                     .unfreed = 1};
    pthread_mutex_lock(&lock);
    for (struct sg_graph_memory *memory = all, *next; memory; memory = next) {
        next = memory->next;
        remove_if_unused(memory);
    }
    made->next = all;
    all = made;
    pthread_mutex_unlock(&lock);
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    make_op(op, made, bytes, address);
    return CUDA_SUCCESS;
}

CUresult sg_graph_free_op(struct sg_op **op, CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    struct sg_graph_memory *memory = find(address);
    if (memory) {
        memory->refs++;
        memory->unfreed = 0;
    }
    pthread_mutex_unlock(&lock);
    if (!memory) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *op = sg_op_new(&sg_kind_graph_free);
    (*op)->memory = memory;
    return CUDA_SUCCESS;
}

CUresult sg_graph_memory_free(CUdeviceptr address, CUstream stream)
{
    pthread_mutex_lock(&lock);
    struct sg_graph_memory *memory = find(address);
    int freed = memory && memory->allocated;
    if (freed) {
        if (stream) {
            note_work(memory, stream);
        }
        set_allocated(memory, 0);
        remove_if_unused(memory);
    }
    pthread_mutex_unlock(&lock);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- launchable graphs ---- */

int sg_graph_has_memory(CUgraph graph)
{
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
            node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            return 1;
        }
    }
    return 0;
}

static struct sg_graph_memory *allocated_by(CUgraphNode node)
{
    return node->op && node->op->kind == &sg_kind_graph_alloc ? node->op->memory : NULL;
}

CUresult sg_graph_memory_claim(CUgraphNode *order, size_t size)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < size; i++) {
        struct sg_graph_memory *memory = allocated_by(order[i]);
        if (memory && memory->claimed) {
            result = CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    for (size_t i = 0; i < size && !result; i++) {
        if (allocated_by(order[i])) {
            allocated_by(order[i])->claimed = 1;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void sg_graph_memory_disclaim(CUgraphNode *order, size_t size)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < size; i++) {
        if (allocated_by(order[i])) {
            allocated_by(order[i])->claimed = 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

CUresult sg_graph_memory_map(CUgraphNode *order, size_t size, int frees_first)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < size && !result; i++) {
        struct sg_graph_memory *memory = allocated_by(order[i]);
        if (memory && memory->allocated && !frees_first) {
            result = CUDA_ERROR_INVALID_VALUE; /* its last launch's was not freed */
        } else if (memory) {
            result = map_memory(memory);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void sg_graph_memory_launched(CUgraphNode *order, size_t size, CUstream stream)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < size; i++) {
        struct sg_op *op = order[i]->op;
        if (op && (op->kind == &sg_kind_graph_alloc || op->kind == &sg_kind_graph_free)) {
            note_work(op->memory, stream);
            set_allocated(op->memory, op->kind == &sg_kind_graph_alloc);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- all of a GPU's ---- */

void sg_graph_memory_trim(unsigned gpu)
{
    pthread_mutex_lock(&lock);
    for (struct sg_graph_memory *memory = all; memory; memory = memory->next) {
        if (memory->gpu == gpu && !memory->allocated &&
            (!memory->stream || sg_stream_done(memory->stream, memory->number))) {
            unmap_memory(memory);
        }
    }
    pthread_mutex_unlock(&lock);
}

struct sg_graph_memory_sums sg_graph_memory_sums(unsigned gpu)
{
    pthread_mutex_lock(&lock);
    struct sg_graph_memory_sums copy_of_sums = sums[gpu];
    pthread_mutex_unlock(&lock);
    return copy_of_sums;
}

void sg_graph_memory_reset_high(unsigned gpu, int used, int reserved)
{
    pthread_mutex_lock(&lock);
    if (used) {
        sums[gpu].used_high = sums[gpu].used;
    }
    if (reserved) {
        sums[gpu].reserved_high = sums[gpu].reserved;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- single nodes ---- */

int sg_graph_memory_of(CUgraphNode node, unsigned *gpu, size_t *bytes, CUdeviceptr *address)
{
    const struct sg_op *op = node->op;
    if (!op || (op->kind != &sg_kind_graph_alloc && op->kind != &sg_kind_graph_free)) {
        return -1;
    }
    *gpu = op->memory->gpu;
    *bytes = op->memory_bytes;
    *address = op->memory->base;
    return 0;
}
