/* What an address is. Our memory lies in ranges that the driver takes for the program's own mapping;
 * programs are told what they asked for. */
#include <string.h>

#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/address_info.h"
#include "shim/mem/extent.h"
#include "shim/mem/pin.h"

struct answer {
    union {
        uint64_t word;
        void *pointer;
        unsigned number;
        int ordinal;
        bool truth;
    };
    size_t bytes;
};

enum told { TOLD, NOT_SO, ASK_DRIVER };

/* NOT_SO: device memory has no such attribute. */
static enum told tell(struct answer *answer, CUpointer_attribute attribute, CUdeviceptr pointer,
                      const struct address_info *info)
{
    *answer = (struct answer){.bytes = sizeof(uint64_t)};
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        answer->pointer = info->context;
        return info->mapping ? ASK_DRIVER : TOLD;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        answer->number = CU_MEMORYTYPE_DEVICE;
        answer->bytes = sizeof(unsigned);
        return TOLD;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        answer->word = pointer;
        return TOLD;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        answer->word = info->number;
        return TOLD;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        answer->bytes = sizeof(unsigned);
        return TOLD;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        answer->ordinal = info->ordinal;
        answer->bytes = sizeof(int);
        return TOLD;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        answer->word = info->base;
        return TOLD;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        answer->word = info->bytes;
        return TOLD;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        answer->truth = !info->pool && !info->mapping && !info->imported;
        answer->bytes = sizeof(bool);
        return TOLD;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        answer->truth = true;
        answer->bytes = sizeof(bool);
        return TOLD;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        answer->word = info->handle_types;
        return TOLD;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        answer->number = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        answer->bytes = sizeof(unsigned);
        return info->mapping ? ASK_DRIVER : TOLD;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        answer->pointer = info->pool;
        return TOLD;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        answer->word = info->mapping ? info->bytes : 0;
        return info->mapping ? TOLD : NOT_SO;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        answer->word = info->mapping ? info->base : 0;
        return info->mapping ? TOLD : NOT_SO;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return NOT_SO;
    default:
        return ASK_DRIVER;
    }
}

/* With the tokens of its memory a program has other devices use it. */
static CUresult pin_for_tokens(bool asked, CUdeviceptr pointer)
{
    return asked ? pin_range(pointer, 1, "cuPointerGetAttribute (P2P_TOKENS)") : CUDA_SUCCESS;
}

/* Inside the gate: a program that got none has its memory move again. */
static void unpin_without_tokens(bool asked, CUdeviceptr pointer, CUresult result, const void *told)
{
    const CUDA_POINTER_ATTRIBUTE_P2P_TOKENS *tokens = told;
    if (asked && (result != CUDA_SUCCESS || !tokens->p2pToken)) {
        LOCK_SCOPE(&extent_lock);
        unpin_range(pointer, 1);
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct address_info info;
    struct answer answer;
    enum told told = ASK_DRIVER;
    if (data && client_is_active() && address_info_get(ptr, &info) && !info.managed) {
        told = tell(&answer, attribute, ptr, &info);
    }
    if (told == TOLD) {
        memcpy(data, &answer, answer.bytes);
        return CUDA_SUCCESS;
    }
    if (told == NOT_SO) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (client_is_active()) {
        ptr = address_info_as_seen(ptr);
    }
    bool tokens = data && attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS;
    CUresult result = pin_for_tokens(tokens, ptr);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    result = DRIVER(cuPointerGetAttribute)(data, attribute, ptr);
    unpin_without_tokens(tokens, ptr, result, data);
    gate_leave(slot);
    return result;
}

CUresult cuPointerGetAttributes(unsigned int num_attributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    struct address_info info;
    if (client_is_active()) {
        ptr = address_info_as_seen(ptr);
    }
    const void *tokens = NULL;
    if (!attributes || !data) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < num_attributes; i++) {
        tokens = attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS ? data[i] : tokens;
    }
    CUresult result = pin_for_tokens(tokens != NULL, ptr);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    result = DRIVER(cuPointerGetAttributes)(num_attributes, attributes, data, ptr);
    unpin_without_tokens(tokens != NULL, ptr, result, tokens);
    gate_leave(slot);
    if (result != CUDA_SUCCESS || !client_is_active() || !address_info_get(ptr, &info) ||
        info.managed) {
        return result;
    }
    for (unsigned i = 0; i < num_attributes; i++) {
        struct answer answer;
        enum told told = tell(&answer, attributes[i], ptr, &info);
        if (told != ASK_DRIVER) { /* this form says nothing where there is nothing to say */
            memcpy(data[i], &answer, answer.bytes);
        }
    }
    return CUDA_SUCCESS;
}
