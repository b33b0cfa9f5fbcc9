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

/* Without a lease where nothing that moves lies at the address: the driver answers from its tables. */
static struct mw_slot *enter(bool moves) { return moves ? gate_enter() : NULL; }

static void leave(struct mw_slot *slot)
{
    if (slot) {
        gate_leave(slot);
    }
}

/* True if the address is of memory that the driver sees coming and going. */
static bool is_moving(CUdeviceptr pointer, struct address_info *info)
{
    return client_is_active() && address_info_get(pointer, info) && !info->managed;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct address_info info;
    struct answer answer;
    enum told told = ASK_DRIVER;
    bool moves = is_moving(ptr, &info);
    if (data && moves) {
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
    struct mw_slot *slot = enter(moves || tokens);
    result = DRIVER(cuPointerGetAttribute)(data, attribute, ptr);
    unpin_without_tokens(tokens, ptr, result, data);
    leave(slot);
    return result;
}

/* Answers all that we know: this call says nothing where there is nothing to say. False: some of it is for the
 * driver to answer, and nothing is written unless the driver has answered. */
static bool tell_all(unsigned int count, const CUpointer_attribute *attributes, void **data,
                     CUdeviceptr pointer, const struct address_info *info, bool driver_answered)
{
    struct answer answer;
    bool is_whole = count > 0;
    for (unsigned i = 0; i < count; i++) {
        is_whole &= data[i] && tell(&answer, attributes[i], pointer, info) != ASK_DRIVER;
    }
    for (unsigned i = 0; (is_whole || driver_answered) && i < count; i++) {
        if (data[i] && tell(&answer, attributes[i], pointer, info) != ASK_DRIVER) {
            memcpy(data[i], &answer, answer.bytes);
        }
    }
    return is_whole;
}

CUresult cuPointerGetAttributes(unsigned int num_attributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    struct address_info info;
    const void *tokens = NULL;
    if (!attributes || !data) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool moves = is_moving(ptr, &info);
    if (moves && tell_all(num_attributes, attributes, data, ptr, &info, false)) {
        return CUDA_SUCCESS;
    }
    if (client_is_active()) {
        ptr = address_info_as_seen(ptr);
    }
    for (unsigned i = 0; i < num_attributes; i++) {
        tokens = attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS ? data[i] : tokens;
    }
    CUresult result = pin_for_tokens(tokens != NULL, ptr);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = enter(moves || tokens);
    result = DRIVER(cuPointerGetAttributes)(num_attributes, attributes, data, ptr);
    unpin_without_tokens(tokens != NULL, ptr, result, tokens);
    leave(slot);
    if (result == CUDA_SUCCESS && is_moving(ptr, &info)) {
        tell_all(num_attributes, attributes, data, ptr, &info, true);
    }
    return result;
}
