/* The entry points about devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/shared/machine_parse.h"

static CUresult find(CUdevice device)
{
    SG_ENTER();
    return sg_device_is(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* The call is allowed before cuInit; then it reads the environment. */
    struct sg_machine machine;
    char why[256];
    const char *text = getenv("MOIETY_SIMGPU");
    if (sg_state) {
        *version = (int)sg_state->machine.driver_version;
    } else if (text && sg_machine_parse(&machine, text, why, sizeof why) == 0) {
        *version = (int)machine.driver_version;
    } else {
        *version = 13000;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!device) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(find(ordinal));
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    SG_ENTER();
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count = (int)sg_device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    SG_TRY(find(device));
    if (!name || bytes <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(name, (size_t)bytes, "%s", sg_profile_of(sg_device_of(device))->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    SG_TRY(find(device));
    if (!uuid) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(uuid->bytes, sg_state->device[sg_device_of(device)].uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device)
{
    (void)luid, (void)mask;
    SG_TRY(find(device));
    return CUDA_ERROR_NOT_SUPPORTED; /* there are none outside Windows */
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SG_TRY(find(device));
    if (!bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = sg_profile_of(sg_device_of(device))->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    SG_TRY(find(device));
    if (!text || bytes < 13) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", sg_device_of(device) + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned domain = 0, bus, slot, function;
    SG_ENTER();
    if (!device || !text) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 &&
        sscanf(text, "%x:%x.%x", &bus, &slot, &function) != 3) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < sg_device_count(); i++) {
        if (sg_device_of((CUdevice)i) + 1 == bus && !domain && !slot && !function) {
            *device = (CUdevice)i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    SG_TRY(find(device));
    *major = (int)sg_profile_of(sg_device_of(device))->cc_major;
    *minor = (int)sg_profile_of(sg_device_of(device))->cc_minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice device)
{
    SG_TRY(find(device));
    *prop = (CUdevprop){.maxThreadsPerBlock = 1024,
                        .maxThreadsDim = {1024, 1024, 64},
                        .maxGridSize = {0x7fffffff, 65535, 65535},
                        .sharedMemPerBlock = 49152,
                        .totalConstantMemory = 65536,
                        .SIMDWidth = 32,
                        .memPitch = 0x7fffffff,
                        .regsPerBlock = 65536,
                        .clockRate = (int)sg_profile_of(sg_device_of(device))->clock_mhz * 1000,
                        .textureAlign = 512};
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    (void)type;
    SG_TRY(find(device));
    *supported = 0;
    return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    SG_ENTER();
    (void)target, (void)scope;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- peers ---- */

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SG_TRY(find(device));
    SG_TRY(find(peer));
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice src,
                                 CUdevice dst)
{
    SG_TRY(find(src));
    SG_TRY(find(dst));
    if (src == dst) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */

static const struct {
    CUdevice_attribute attribute;
    int value;
} constants[] = {
    /* values that all models share; attributes that are neither here nor below are 0 */
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
};

static int of_model(CUdevice_attribute attribute, unsigned gpu, int *value)
{
    const struct sg_profile *profile = sg_profile_of(gpu);
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = (int)profile->compute_mode;
        return 1;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = (int)profile->clock_mhz * 1000;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = (int)profile->multiprocessors;
        return 1;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        *value = (int)profile->copy_engines;
        return 1;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value = (int)gpu + 1;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = (int)profile->memory_clock_mhz * 1000;
        return 1;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = (int)profile->bus_width_bits;
        return 1;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = (int)profile->l2_bytes;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
        *value = profile->cc_major >= 8 ? (int)(profile->l2_bytes / 4 * 3) : 0;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = (int)profile->threads_per_multiprocessor;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *value = (int)profile->blocks_per_multiprocessor;
        return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = (int)profile->cc_major;
        return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = (int)profile->cc_minor;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = (int)profile->shared_per_multiprocessor;
        return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = (int)profile->shared_per_block_optin;
        return 1;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value = profile->cc_major >= 9;
        return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        *value = profile->rdma != 0;
        return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID:
        *value = (int)profile->pci_device_id;
        return 1;
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    SG_TRY(find(device));
    if (!value || attribute <= 0 ||
        (int)attribute > CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = 0;
    if (of_model(attribute, sg_device_of(device), value)) {
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (constants[i].attribute == attribute) {
            *value = constants[i].value;
        }
    }
    return CUDA_SUCCESS;
}
