/* NVML: what a GPU is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/nvml/device.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/process_table.h"

/* A handle is the GPU's number, not an address. */
static nvmlDevice_t handle_of(unsigned gpu) { return (nvmlDevice_t)(uintptr_t)(gpu + 1); }

nvmlReturn_t sg_nvml_device(nvmlDevice_t device, unsigned *gpu)
{
    uintptr_t number = (uintptr_t)device;
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (number == 0 || number > sg_state->machine.count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *gpu = (unsigned)number - 1;
    return sg_state->faults.lost & 1u << *gpu ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static void uuid_of(unsigned gpu, char *text, size_t bytes)
{
    const uint8_t *u = sg_state->device[gpu].uuid;
    snprintf(text, bytes,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
}

static nvmlReturn_t put(char *out, unsigned bytes, const char *text)
{
    if (!out) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (strlen(text) >= bytes) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlDeviceGetCount_v2, unsigned int *count)
{
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = sg_state->machine.count;
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlDeviceGetCount, unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

NVML_SYSTEM(nvmlDeviceGetHandleByIndex_v2, unsigned int index, nvmlDevice_t *device)
{
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!device || index >= sg_state->machine.count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *device = handle_of(index);
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlDeviceGetHandleByIndex, unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_SYSTEM(nvmlDeviceGetHandleByUUID, const char *uuid, nvmlDevice_t *device)
{
    char text[64];
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    for (unsigned i = 0; uuid && device && i < sg_state->machine.count; i++) {
        uuid_of(i, text, sizeof text);
        if (strcmp(text, uuid) == 0) {
            *device = handle_of(i);
            return NVML_SUCCESS;
        }
    }
    return uuid && device ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_SYSTEM(nvmlDeviceGetHandleByPciBusId_v2, const char *text, nvmlDevice_t *device)
{
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!text || !device ||
        (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 &&
         sscanf(text, "%x:%x.%x", &bus, &slot, &function) != 3)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (domain || slot || bus == 0 || bus > sg_state->machine.count) {
        return NVML_ERROR_NOT_FOUND;
    }
    *device = handle_of(bus - 1);
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlDeviceGetHandleByPciBusId, const char *text, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

NVML_DEVICE(nvmlDeviceGetName, char *name, unsigned int bytes)
{
    NVML_ENTER();
    return put(name, bytes, profile->name);
}

NVML_DEVICE(nvmlDeviceGetUUID, char *uuid, unsigned int bytes)
{
    char text[64];
    NVML_ENTER();
    uuid_of(gpu, text, sizeof text);
    return put(uuid, bytes, text);
}

NVML_DEVICE(nvmlDeviceGetIndex, unsigned int *index)
{
    NVML_ENTER();
    *index = gpu;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetMinorNumber, unsigned int *number)
{
    NVML_ENTER();
    *number = gpu;
    return NVML_SUCCESS;
}

void sg_nvml_pci(unsigned gpu, nvmlPciInfo_t *info)
{
    memset(info, 0, sizeof *info);
    info->bus = gpu + 1;
    info->pciDeviceId = sg_state->machine.profile[gpu].pci_device_id;
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", info->bus & 0xff);
    snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", info->bus & 0xff);
}

NVML_DEVICE(nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t *info)
{
    NVML_ENTER();
    sg_nvml_pci(gpu, info);
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetPciInfo_v2, nvmlPciInfo_t *info)
{
    return nvmlDeviceGetPciInfo_v3(device, info);
}

NVML_DEVICE(nvmlDeviceGetPciInfo, nvmlPciInfo_t *info)
{
    return nvmlDeviceGetPciInfo_v3(device, info);
}

NVML_DEVICE(nvmlDeviceGetBrand, unsigned int *brand)
{
    NVML_ENTER();
    *brand = profile->cc_major == 7 ? 2 /* Tesla */ : 14 /* NVIDIA */;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetArchitecture, unsigned int *architecture)
{
    NVML_ENTER();
    *architecture = profile->nvml_architecture;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetCudaComputeCapability, int *major, int *minor)
{
    NVML_ENTER();
    *major = (int)profile->cc_major;
    *minor = (int)profile->cc_minor;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetNumGpuCores, unsigned int *cores)
{
    NVML_ENTER();
    *cores =
        profile->multiprocessors * (profile->cc_major >= 9 || profile->cc_minor == 9 ? 128 : 64);
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetMemoryBusWidth, unsigned int *bits)
{
    NVML_ENTER();
    *bits = profile->bus_width_bits;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceIsMigDeviceHandle, unsigned int *is)
{
    NVML_ENTER();
    *is = 0;
    return NVML_SUCCESS;
}

/* Three that are always off, under names of their own. */
#define NVML_OFF(name)                    \
    NVML_DEVICE(name, unsigned int *mode) \
    {                                     \
        NVML_ENTER();                     \
        *mode = 0;                        \
        return NVML_SUCCESS;              \
    }
NVML_OFF(nvmlDeviceGetDisplayMode)
NVML_OFF(nvmlDeviceGetDisplayActive)
NVML_OFF(nvmlDeviceGetPerformanceState)

NVML_DEVICE(nvmlDeviceGetComputeMode, unsigned int *mode)
{
    NVML_ENTER();
    *mode = profile->compute_mode;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetMigMode, unsigned int *current, unsigned int *pending)
{
    NVML_ENTER();
    if (profile->cc_major < 8) {
        return NVML_ERROR_NOT_SUPPORTED; /* as cards that cannot be divided */
    }
    *current = *pending = profile->mig != 0;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetPersistenceMode, unsigned int *mode)
{
    NVML_ENTER();
    *mode = !profile->no_persistence;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetEccMode, unsigned int *current, unsigned int *pending)
{
    NVML_ENTER();
    *current = *pending = 1;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetGpuFabricInfoV, nvmlGpuFabricInfoV_t *info)
{
    NVML_ENTER();
    unsigned version = info->version;
    memset(info, 0, sizeof *info - sizeof info->healthMask); /* version 1 ends before the mask */
    info->version = version;
    return NVML_SUCCESS; /* state 0: there is no fabric */
}

/* All GPUs hang on one host bridge. */
NVML_DEVICE(nvmlDeviceGetTopologyNearestGpus, unsigned int level, unsigned int *count,
            nvmlDevice_t *nearest)
{
    enum { HOST_BRIDGE = 30 };
    unsigned others = 0;
    NVML_ENTER();
    if (!count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned i = 0; level == HOST_BRIDGE && i < sg_state->machine.count; i++) {
        if (i == gpu) {
            continue;
        }
        if (nearest && others < *count) {
            nearest[others] = handle_of(i);
        }
        others++;
    }
    if (!nearest || !*count || others < *count) {
        *count = others;
    }
    return NVML_SUCCESS;
}
