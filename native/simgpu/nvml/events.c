/* NVML: events. Errors of GPUs (XID) are the only kind. */
#include <stdlib.h>

#include "simgpu/nvml/device.h"

#define XID_CRITICAL 8ull

struct nvmlEventSet_st {
    uint32_t seen; /* errors of the machine that this set was told of, or that were before it */
    uint32_t gpus; /* a bit for each that is registered */
};

NVML_SYSTEM(nvmlEventSetCreate, nvmlEventSet_t *set)
{
    nvmlReturn_t entered = sg_nvml_entered();
    if (entered) {
        return entered;
    }
    *set = calloc(1, sizeof **set);
    if (!*set) {
        return NVML_ERROR_MEMORY;
    }
    (*set)->seen = __atomic_load_n(&sg_state->faults.count, __ATOMIC_ACQUIRE);
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlEventSetFree, nvmlEventSet_t set)
{
    free(set);
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetSupportedEventTypes, unsigned long long *types)
{
    NVML_ENTER();
    *types = XID_CRITICAL;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceRegisterEvents, unsigned long long types, nvmlEventSet_t set)
{
    NVML_ENTER();
    if (!set || types & ~XID_CRITICAL) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    set->gpus |= 1u << gpu;
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlEventSetWait_v2, nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    nvmlReturn_t entered = sg_nvml_entered();
    if (entered) {
        return entered;
    }
    struct sg_faults *faults = &sg_state->faults;
    if (__atomic_load_n(&faults->count, __ATOMIC_ACQUIRE) == set->seen) {
        sg_fault_wait(faults, set->seen, timeout_ms);
    }
    while (__atomic_load_n(&faults->count, __ATOMIC_ACQUIRE) != set->seen) {
        const struct sg_fault *fault = &faults->log[set->seen++ % SG_FAULTS_KEPT];
        if (set->gpus & 1u << fault->gpu) {
            *data = (nvmlEventData_t){.device = (nvmlDevice_t)(uintptr_t)(fault->gpu + 1),
                                      .eventType = XID_CRITICAL,
                                      .eventData = fault->xid,
                                      .gpuInstanceId = 0xffffffffu,
                                      .computeInstanceId = 0xffffffffu};
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_TIMEOUT;
}

NVML_SYSTEM(nvmlEventSetWait, nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
