#include "shim/charge.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/allowance.h"
#include "shim/blocks.h"
#include "shim/link.h"
#include "shim/say.h"

void charge_count(struct device *device, uint64_t bytes, uint32_t flags)
{
    device->allocated_bytes += bytes;
    device->managed_bytes += flags & MW_ALLOC_MANAGED ? bytes : 0;
    device->pinned_bytes += flags & MW_ALLOC_PINNED ? bytes : 0;
}

static bool is_allowed(struct device *device, uint64_t bytes)
{
    if (!atomic_load(&allowances_given)) {
        return false;
    }
    LOCK_SCOPE(&blocks_lock);
    return allowance_take(device, bytes);
}

CUresult charge_ask(struct device *device, uint64_t bytes, uint32_t flags)
{
    static bool told;
    if (!flags && is_allowed(device, bytes)) {
        return CUDA_SUCCESS;
    }
    struct link_request request = {
        .message.alloc = {.gpu = device->gpu, .flags = flags, .bytes = bytes}};
    link_ask(&request, sizeof(request.message.alloc), MW_ALLOC_REQUEST);
    if (request.message.header.type == MW_ALLOC_REPLY) {
        return CUDA_SUCCESS;
    }
    if (request.message.refused.code != MW_REFUSAL_LIMIT && !told) {
        told = true; /* programs try again and again */
        say(NULL, "%s", request.message.refused.text);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void charge_drop(struct device *device, uint64_t bytes, uint64_t resident, uint32_t flags)
{
    struct mw_free note = {
        .gpu = device->gpu, .flags = flags, .bytes = bytes, .resident_bytes = resident};
    if (!flags && bytes == resident && allowance_put(device, bytes)) {
        return;
    }
    charge_count(device, -bytes, flags);
    link_send(&note, sizeof(note), MW_FREE);
}

void charge_keep(struct device *device, uint64_t bytes)
{
    device->pinned_bytes += bytes;
    link_amount(MW_PIN_BYTES, device->gpu, bytes);
}

void charge_admitted(uint32_t gpu, uint64_t bytes, uint32_t flags)
{
    LOCK_SCOPE(&blocks_lock);
    struct device *device = device_of_gpu(gpu);
    if (device) {
        charge_count(device, bytes, flags);
    }
}
