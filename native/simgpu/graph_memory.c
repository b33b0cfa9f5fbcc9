#include "simgpu/graph_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/chunk.h"
#include "simgpu/context.h"

struct sg_graph_memory {
    struct sg_graph_memory *next;
    int refs; /* its range's (while it is allocated), work's that names it */
    unsigned gpu;
    size_t bytes;
    uint64_t base, span;
    struct sg_chunk *chunk; /* NULL: nothing is behind it */
    struct sg_range *range;
    int allocated, claimed;
    CUstream stream; /* of the last launch, or free */
    uint64_t number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_graph_memory *all;
static struct {
    uint64_t used, used_high, reserved, reserved_high;
} sums[SG_DEVICES_MAX];

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

static CUresult back(struct sg_graph_memory *memory)
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
    sg_map_lock();
    memory->range->chunk = memory->chunk;
    sg_map_unlock();
    count(memory->gpu, 0, (int64_t)memory->span);
    return CUDA_SUCCESS;
}

static void unback(struct sg_graph_memory *memory)
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

/* Lock held; whoever held the last reference calls it. */
static void remove_if_unused(struct sg_graph_memory *memory)
{
    if (memory->refs > 0 || (memory->stream && !sg_stream_done(memory->stream, memory->number))) {
        return; /* the latter goes when the next one is made */
    }
    struct sg_graph_memory **at = &all;
    while (*at != memory) {
        at = &(*at)->next;
    }
    *at = memory->next;
    sg_map_lock();
    sg_map_remove(memory->range);
    sg_map_unlock();
    unback(memory);
    sg_addresses_give(memory->base, memory->span);
    if (memory->stream) {
        sg_stream_unref(memory->stream);
    }
    free(memory->range);
    free(memory);
}

void sg_graph_memory_ref(struct sg_graph_memory *memory)
{
    pthread_mutex_lock(&lock);
    memory->refs++;
    pthread_mutex_unlock(&lock);
}

void sg_graph_memory_unref(struct sg_graph_memory *memory)
{
    pthread_mutex_lock(&lock);
    memory->refs--;
    remove_if_unused(memory);
    pthread_mutex_unlock(&lock);
}

static struct sg_graph_memory *find(CUdeviceptr address)
{
    struct sg_graph_memory *memory = all;
    while (memory && memory->base != address) {
        memory = memory->next;
    }
    return memory;
}

/* ---- work ---- */

CUresult sg_graph_alloc_op(struct sg_op **op, unsigned gpu, size_t bytes, CUdeviceptr *address)
{
    if (!bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > sg_profile_of(gpu)->memory_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sg_graph_memory *made = calloc(1, sizeof *made);
    struct sg_range *range = calloc(1, sizeof *range);
    uint64_t span = (bytes + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1);
    uint64_t base = made && range ? sg_addresses_take(span, 0, 0) : 0;
    if (!base) {
        free(made);
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range = (struct sg_range){
        .base = base, .size = bytes, .span = span, .kind = SG_GRAPH_MEMORY, .gpu = gpu};
    *made = (struct sg_graph_memory){
        .refs = 1, .gpu = gpu, .bytes = bytes, .base = base, .span = span, .range = range};
    pthread_mutex_lock(&lock);
    for (struct sg_graph_memory *memory = all, *next; memory; memory = next) {
        next = memory->next;
        remove_if_unused(memory);
    }
    made->next = all;
    all = made;
    pthread_mutex_unlock(&lock);
    sg_map_lock();
    sg_map_add(range);
    sg_map_unlock();
    *op = sg_op_new(SG_OP_GRAPH_ALLOC);
    (*op)->memory = made;
    *address = base;
    return CUDA_SUCCESS;
}

CUresult sg_graph_free_op(struct sg_op **op, CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    struct sg_graph_memory *memory = find(address);
    if (memory) {
        memory->refs++;
    }
    pthread_mutex_unlock(&lock);
    if (!memory) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *op = sg_op_new(SG_OP_GRAPH_FREE);
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
    return node->op && node->op->kind == SG_OP_GRAPH_ALLOC ? node->op->memory : NULL;
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

CUresult sg_graph_memory_back(CUgraphNode *order, size_t size, int frees_first)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < size && !result; i++) {
        struct sg_graph_memory *memory = allocated_by(order[i]);
        if (memory && memory->allocated && !frees_first) {
            result = CUDA_ERROR_INVALID_VALUE; /* its last launch's was not freed */
        } else if (memory) {
            result = back(memory);
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
        if (op && (op->kind == SG_OP_GRAPH_ALLOC || op->kind == SG_OP_GRAPH_FREE)) {
            note_work(op->memory, stream);
            set_allocated(op->memory, op->kind == SG_OP_GRAPH_ALLOC);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- entry points ---- */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&lock);
    for (struct sg_graph_memory *memory = all; memory; memory = memory->next) {
        if (memory->gpu == sg_device_of(device) && !memory->allocated &&
            (!memory->stream || sg_stream_done(memory->stream, memory->number))) {
            unback(memory);
        }
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static uint64_t *sum_of(CUdevice device, CUgraphMem_attribute attribute, int high_only)
{
    unsigned gpu = sg_device_of(device);
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return high_only ? NULL : &sums[gpu].used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &sums[gpu].used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return high_only ? NULL : &sums[gpu].reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &sums[gpu].reserved_high;
    default:
        return NULL;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    const uint64_t *sum = sum_of(device, attribute, 0);
    if (!sum || !value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    memcpy(value, sum, sizeof *sum);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    uint64_t wanted;
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    unsigned gpu = sg_device_of(device);
    uint64_t *sum = sum_of(device, attribute, 1);
    if (!sum || !value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&wanted, value, sizeof wanted);
    if (wanted) { /* only back to what it is now */
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    *sum = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ? sums[gpu].used : sums[gpu].reserved;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult check(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends, size_t size)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || (size && !depends)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < size; i++) {
        if (!sg_handle_is(depends[i], SG_GRAPH_NODE) || depends[i]->graph != graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                size_t size, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct sg_op *op;
    SG_TRY(check(out, graph, depends, size));
    if (!params || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        params->poolProps.handleTypes || !sg_device_is(params->poolProps.location.id)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_graph_alloc_op(&op, sg_device_of(params->poolProps.location.id), params->bytesize,
                             &params->dptr));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, op, depends, size);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                               size_t size, CUdeviceptr address)
{
    struct sg_op *op;
    SG_TRY(check(out, graph, depends, size));
    SG_TRY(sg_graph_free_op(&op, address));
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, op, depends, size);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    SG_ENTER();
    if (!params || !sg_handle_is(node, SG_GRAPH_NODE) || !allocated_by(node)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sg_graph_memory *memory = allocated_by(node);
    *params = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, sg_ordinal_of(memory->gpu)}},
        .bytesize = memory->bytes,
        .dptr = memory->base};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    SG_ENTER();
    if (!address || !sg_handle_is(node, SG_GRAPH_NODE) ||
        node->type != CU_GRAPH_NODE_TYPE_MEM_FREE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = node->op->memory->base;
    return CUDA_SUCCESS;
}
