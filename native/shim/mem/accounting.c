#include "shim/mem/accounting.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/agent/socket.h"
#include "shim/base/message.h"
#include "shim/mem/credit.h"
#include "shim/mem/extent.h"

void accounting_count(struct device *device, uint64_t bytes, uint32_t flags)
{
    device->allocated_bytes += bytes;
    device->managed_bytes += flags & MW_ALLOC_MANAGED ? bytes : 0;
    device->pinned_bytes += flags & MW_ALLOC_PINNED ? bytes : 0;
}

static bool is_allowed(struct device *device, uint64_t bytes)
{
    if (!atomic_load(&credits_granted)) {
        return false;
    }
    LOCK_SCOPE(&extent_lock);
    return credit_take(device, bytes);
}

CUresult accounting_charge(struct device *device, uint64_t bytes, uint32_t flags)
{
    static bool told;
    if (!flags && is_allowed(device, bytes)) {
        return CUDA_SUCCESS;
    }
    struct agent_request request = {
        .message.alloc = {.gpu = device->gpu, .flags = flags, .bytes = bytes}};
    agent_ask(&request, sizeof(request.message.alloc), MW_ALLOC_REQUEST);
    if (request.message.header.type == MW_ALLOC_REPLY) {
        return CUDA_SUCCESS;
    }
    if (request.message.refused.code != MW_REFUSAL_LIMIT && !told) {
        told = true; /* programs try again and again */
        message_print(NULL, "%s", request.message.refused.text);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void accounting_release(struct device *device, uint64_t bytes, uint64_t resident, uint32_t flags)
{
    struct mw_free note = {
        .gpu = device->gpu, .flags = flags, .bytes = bytes, .resident_bytes = resident};
    if (!flags && bytes == resident && credit_put(device, bytes)) {
        return;
    }
    accounting_count(device, -bytes, flags);
    agent_send(&note, sizeof(note), MW_FREE);
}

void accounting_pin(struct device *device, uint64_t bytes)
{
    device->pinned_bytes += bytes;
    agent_amount(MW_PIN_BYTES, device->gpu, bytes);
}

void accounting_admitted(uint32_t gpu, uint64_t bytes, uint32_t flags)
{
    LOCK_SCOPE(&extent_lock);
    struct device *device = device_of_gpu(gpu);
    if (device) {
        accounting_count(device, bytes, flags);
    }
}
