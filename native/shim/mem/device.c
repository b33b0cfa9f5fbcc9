#include "shim/mem/device.h"

#include <string.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"

static struct device devices[MW_GPUS_MAX];
static uint32_t device_count;
struct lock device_lock = LOCK_INIT(LOCK_DEVICES);
static struct lock attach_lock = LOCK_INIT(LOCK_ATTACH);

bool devices_several;

static struct device *find(CUdevice ordinal)
{
    for (uint32_t i = 0; i < device_count; i++) {
        if (devices[i].ordinal == ordinal) {
            return &devices[i];
        }
    }
    return NULL;
}

static void note_several(const struct device *device)
{
    for (uint32_t i = 0; i < device_count; i++) {
        if (devices[i].attached && &devices[i] != device) {
            __atomic_store_n(&devices_several, true, __ATOMIC_RELAXED);
        }
    }
}

static CUresult fill_attach(struct mw_attach *attach, CUdevice ordinal)
{
    CUuuid uuid;
    size_t total = 0;
    CUresult result = DRIVER(cuDeviceGetUuid)(&uuid, ordinal);
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuDeviceTotalMem_v2)(&total, ordinal);
    }
    memcpy(attach->uuid, uuid.bytes, sizeof(attach->uuid));
    attach->total_bytes = total;
    return result;
}

/* Asks with MW_LIMIT_QUERY or MW_ATTACH; the caller holds no lock. */
static CUresult ask(CUdevice ordinal, enum mw_type type, struct device **answer)
{
    struct agent_request request = {0};
    CUresult result = fill_attach(&request.message.attach, ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uint64_t total = request.message.attach.total_bytes;
    agent_ask(&request, sizeof(request.message.attach), type);
    const struct mw_attached *attached = &request.message.attached;
    if (attached->header.type != MW_ATTACHED) {
        message_print("moiety ps shows who uses the GPU", "%s", request.message.refused.text);
        return request.message.refused.code == MW_REFUSAL_GPU ? CUDA_ERROR_INVALID_DEVICE
                                                              : CUDA_ERROR_OUT_OF_MEMORY;
    }
    LOCK_SCOPE(&device_lock);
    struct device *device = find(ordinal);
    if (!device) {
        if (device_count == MW_GPUS_MAX) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        device = &devices[device_count];
        device->ordinal = ordinal;
        device_count++;
    }
    device->gpu = attached->gpu;
    device->total_bytes = total;
    __atomic_store_n(&device->limit_bytes, attached->limit_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&device->limit_together, attached->together != 0, __ATOMIC_RELAXED);
    device->chunk_bytes = attached->chunk_bytes;
    __atomic_store_n(&device->known, true, __ATOMIC_RELEASE);
    if (type == MW_ATTACH) {
        __atomic_store_n(&device->attached, true, __ATOMIC_RELEASE);
        note_several(device);
    }
    *answer = device;
    return CUDA_SUCCESS;
}

struct device *device_look_up(CUdevice ordinal)
{
    lock_take(&device_lock);
    struct device *device = find(ordinal);
    lock_drop(&device_lock);
    if (!device && ask(ordinal, MW_LIMIT_QUERY, &device) != CUDA_SUCCESS) {
        return NULL;
    }
    return device;
}

/* The device, if it is attached; it stays so while a context is being created. */
static struct device *find_attached(CUdevice ordinal, bool creates)
{
    LOCK_SCOPE(&device_lock);
    struct device *device = find(ordinal);
    if (!device || !device->attached) {
        return NULL;
    }
    device->creating += creates;
    return device;
}

static CUresult attach(CUdevice ordinal, bool creates, struct device **device)
{
    CUresult result = CUDA_SUCCESS;
    *device = find_attached(ordinal, creates);
    if (*device) {
        return CUDA_SUCCESS;
    }
    LOCK_SCOPE(&attach_lock); /* one thread asks, the others find it done */
    *device = find_attached(ordinal, creates);
    if (!*device) {
        result = ask(ordinal, MW_ATTACH, device);
    } else {
        creates = false;
    }
    if (result == CUDA_SUCCESS && creates) {
        find_attached(ordinal, creates);
    }
    return result;
}

CUresult device_attach(CUdevice ordinal, struct device **device)
{
    return attach(ordinal, true, device);
}

CUresult device_of_ordinal(CUdevice ordinal, struct device **device)
{
    return attach(ordinal, false, device);
}

bool device_keep_attached(struct device *device)
{
    LOCK_SCOPE(&device_lock);
    device->creating += device->attached;
    return device->attached;
}

void device_created(struct device *device)
{
    LOCK_SCOPE(&device_lock);
    device->creating--;
}

struct device *device_of_gpu(uint32_t gpu)
{
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        if (d->gpu == gpu) {
            return d;
        }
    }
    return NULL;
}

void device_set_limit(uint32_t gpu, uint64_t limit_bytes, bool together)
{
    LOCK_SCOPE(&device_lock);
    for (uint32_t i = 0; i < device_count; i++) {
        if (devices[i].gpu == gpu) { /* looked up or attached */
            __atomic_store_n(&devices[i].limit_bytes, limit_bytes, __ATOMIC_RELAXED);
            __atomic_store_n(&devices[i].limit_together, together, __ATOMIC_RELAXED);
        }
    }
}

uint64_t device_limit(const struct device *device)
{
    return __atomic_load_n(&device->limit_bytes, __ATOMIC_RELAXED);
}

uint64_t device_limit_beside(const struct device *device)
{
    struct agent_request request = {0};
    if (!__atomic_load_n(&device->limit_together, __ATOMIC_RELAXED) || agent_is_lost() ||
        fill_attach(&request.message.attach, device->ordinal) != CUDA_SUCCESS) {
        return 0;
    }
    agent_ask(&request, sizeof(request.message.attach), MW_LIMIT_QUERY);
    const struct mw_attached *attached = &request.message.attached;
    return attached->header.type == MW_ATTACHED ? attached->others_bytes : 0;
}

uint32_t device_contexts_destroyed(void)
{
    uint32_t destroyed = 0;
    LOCK_SCOPE(&device_lock);
    for (uint32_t i = 0; i < device_count; i++) {
        destroyed += devices[i].contexts_destroyed;
    }
    return destroyed;
}

struct device *device_next(const struct device *device)
{
    LOCK_SCOPE(&device_lock);
    for (size_t i = device ? (size_t)(device - devices) + 1 : 0; i < device_count; i++) {
        if (devices[i].attached) {
            return &devices[i];
        }
    }
    return NULL;
}

void device_detach_unused(struct device *device, void (*detaching)(struct device *device))
{
    LOCK_SCOPE(&attach_lock); /* so that the next MW_ATTACH comes after our message */
    lock_take(&device_lock);
    bool unused = device->attached && device->context_count == 0 && device->creating == 0 &&
                  device->allocated_bytes == 0; /* memory of cuMemCreate needs no context */
    if (unused) {
        device->attached = false;
    }
    lock_drop(&device_lock);
    if (unused) {
        detaching(device);
        agent_amount(MW_DETACH, device->gpu, 0);
    }
}

void device_tell(const struct device *device, struct mw_attach *state)
{
    *state = (struct mw_attach){.allocated_bytes = device->allocated_bytes,
                                .resident_bytes = device->resident_bytes,
                                .pinned_bytes = device->pinned_bytes,
                                .managed_bytes = device->managed_bytes};
    fill_attach(state, device->ordinal);
}

void device_after_fork(void)
{
    memset(devices, 0, sizeof(devices));
    device_count = 0;
    lock_after_fork(&device_lock);
    lock_after_fork(&attach_lock);
}
