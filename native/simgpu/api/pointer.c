/* What an address is. */
#include <string.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/pool.h"

struct answer {
    union {
        uint64_t word;
        unsigned number;
        int signed_number;
        void *pointer;
        CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
    };
    size_t bytes;
};

static int on_device(const struct sg_range *range)
{
    return range->kind != SG_RANGE_HOST && range->kind != SG_RANGE_REGISTERED;
}

/* Answers attributes that every range has. Returns 0 for any other attribute. */
static int describe_range(struct answer *answer, CUpointer_attribute attribute, uint64_t address,
                          const struct sg_range *range)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        answer->pointer = range->context; /* pools belong to no context */
        return range->context || range->kind == SG_RANGE_POOLED ||
                       range->kind == SG_RANGE_GRAPH_MEMORY
                   ? 1
                   : -1;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        answer->number = on_device(range) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        answer->bytes = sizeof(unsigned);
        return 1;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        answer->word = address;
        return 1;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        answer->word = address;
        return !on_device(range) || range->kind == SG_RANGE_MANAGED ? 1 : -1;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        answer->word = range->id;
        return 1;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        answer->bytes = sizeof(unsigned);
        return 1;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        answer->number = range->kind == SG_RANGE_MANAGED;
        answer->bytes = sizeof(unsigned);
        return 1;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        answer->signed_number = sg_ordinal_of(range->gpu);
        answer->bytes = sizeof(int);
        return 1;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        answer->word = range->base;
        return 1;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        answer->word = range->size;
        return 1;
    default:
        return 0;
    }
}

/* Memory of cuMemAlloc always; of cuMemCreate if that was asked for. */
static int is_rdma_capable(const struct sg_range *range, const struct sg_range *mapped)
{
    if (mapped) {
        return mapped->chunk && mapped->chunk->prop.allocFlags.gpuDirectRDMACapable;
    }
    return range && range->kind == SG_RANGE_ALLOCATED && sg_profile_of(range->gpu)->rdma;
}

/* Answers attributes of memory that cuMemMap mapped; for other memory they are false or empty. */
static CUresult describe_mapping(struct answer *answer, CUpointer_attribute attribute,
                                 const struct sg_range *range, const struct sg_range *mapped)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        answer->number = range && range->kind == SG_RANGE_ALLOCATED;
        answer->bytes = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        answer->number = range && range->kind != SG_RANGE_RESERVED;
        answer->bytes = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        answer->number = (unsigned)is_rdma_capable(range, mapped);
        answer->bytes = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        if (!is_rdma_capable(range, mapped)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        answer->tokens = (CUDA_POINTER_ATTRIBUTE_P2P_TOKENS){range->id, 1};
        answer->bytes = sizeof answer->tokens;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        answer->word =
            mapped ? mapped->chunk ? (uint64_t)mapped->chunk->prop.requestedHandleTypes : 0
            : range && range->kind == SG_RANGE_POOLED ? (uint64_t)range->pool->props.handleTypes
                                                      : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        answer->number = mapped  ? (unsigned)mapped->access
                         : range ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                 : 0;
        answer->bytes = sizeof(unsigned);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        answer->pointer = range && range->kind == SG_RANGE_POOLED ? range->pool : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        answer->word = mapped ? mapped->size : 0;
        return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        answer->word = mapped ? mapped->base : 0;
        return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult describe(struct answer *answer, CUpointer_attribute attribute, uint64_t address,
                         const struct sg_range *range, const struct sg_range *mapped)
{
    static const struct sg_range nothing = {.kind = SG_RANGE_HOST};
    *answer = (struct answer){.bytes = sizeof(uint64_t)};
    int known = describe_range(answer, attribute, address, range ? range : &nothing);
    if (known) {
        return known > 0 && range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return describe_mapping(answer, attribute, range, mapped);
}

/* The map is locked. A reservation with mapped memory answers for that memory. */
static const struct sg_range *look_up(uint64_t address, const struct sg_range **mapped)
{
    struct sg_range *range = sg_ranges_find(address);
    *mapped = range && range->kind == SG_RANGE_RESERVED ? sg_ranges_find_mapped(address) : NULL;
    return range && range->kind == SG_RANGE_RESERVED && *mapped ? *mapped : range;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct answer answer;
    const struct sg_range *mapped, *range;
    SG_ENTER();
    if (!data) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_ranges_lock();
    range = look_up(address, &mapped);
    CUresult result = describe(&answer, attribute, address, range, mapped);
    sg_ranges_unlock();
    if (!result) {
        memcpy(data, &answer, answer.bytes);
    }
    return result;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address)
{
    SG_ENTER();
    if (!count || !attributes || !data) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++) {
        struct answer answer;
        const struct sg_range *mapped, *range;
        sg_ranges_lock();
        range = look_up(address, &mapped);
        CUresult result = describe(&answer, attributes[i], address, range, mapped);
        sg_ranges_unlock();
        if (result) { /* this call succeeds for unknown addresses, with empty answers */
            memset(&answer.word, 0, sizeof answer.word);
            if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
                answer.signed_number = CU_DEVICE_INVALID;
            }
        }
        memcpy(data[i], &answer, answer.bytes);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    SG_ENTER();
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
        !sg_is_device_range(address, 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS; /* copies from and to pageable memory are synchronous anyway */
}
