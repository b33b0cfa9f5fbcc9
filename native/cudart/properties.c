/* cudaDeviceProp: the driver's attributes in one struct. */
#include <string.h>

#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

/* The attributes that are one number in one field. */
#define NUMBERS(X)                                                                          \
    X(regsPerBlock, MAX_REGISTERS_PER_BLOCK)                                                \
    X(warpSize, WARP_SIZE)                                                                  \
    X(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)                                            \
    X(maxThreadsDim[0], MAX_BLOCK_DIM_X)                                                    \
    X(maxThreadsDim[1], MAX_BLOCK_DIM_Y)                                                    \
    X(maxThreadsDim[2], MAX_BLOCK_DIM_Z)                                                    \
    X(maxGridSize[0], MAX_GRID_DIM_X)                                                       \
    X(maxGridSize[1], MAX_GRID_DIM_Y)                                                       \
    X(maxGridSize[2], MAX_GRID_DIM_Z)                                                       \
    X(major, COMPUTE_CAPABILITY_MAJOR)                                                      \
    X(minor, COMPUTE_CAPABILITY_MINOR)                                                      \
    X(multiProcessorCount, MULTIPROCESSOR_COUNT)                                            \
    X(integrated, INTEGRATED)                                                               \
    X(canMapHostMemory, CAN_MAP_HOST_MEMORY)                                                \
    X(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH)                                                \
    X(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH)                                             \
    X(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT)                                            \
    X(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH)                                             \
    X(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT)                                            \
    X(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH)                                             \
    X(concurrentKernels, CONCURRENT_KERNELS)                                                \
    X(ECCEnabled, ECC_ENABLED)                                                              \
    X(pciBusID, PCI_BUS_ID)                                                                 \
    X(pciDeviceID, PCI_DEVICE_ID)                                                           \
    X(pciDomainID, PCI_DOMAIN_ID)                                                           \
    X(tccDriver, TCC_DRIVER)                                                                \
    X(asyncEngineCount, ASYNC_ENGINE_COUNT)                                                 \
    X(unifiedAddressing, UNIFIED_ADDRESSING)                                                \
    X(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)                                              \
    X(l2CacheSize, L2_CACHE_SIZE)                                                           \
    X(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE)                               \
    X(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)                          \
    X(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)                               \
    X(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED)                                    \
    X(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED)                                      \
    X(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)                              \
    X(managedMemory, MANAGED_MEMORY)                                                        \
    X(isMultiGpuBoard, MULTI_GPU_BOARD)                                                     \
    X(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID)                                       \
    X(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED)                              \
    X(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS)                                         \
    X(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)                                   \
    X(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED)                             \
    X(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)           \
    X(cooperativeLaunch, COOPERATIVE_LAUNCH)                                                \
    X(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) \
    X(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)                  \
    X(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)                            \
    X(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE)                             \
    X(hostRegisterSupported, HOST_REGISTER_SUPPORTED)                                       \
    X(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED)                                \
    X(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED)                     \
    X(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)              \
    X(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)                                         \
    X(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED)                                    \
    X(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)                \
    X(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING)                         \
    X(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES)                       \
    X(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)             \
    X(clusterLaunch, CLUSTER_LAUNCH)                                                        \
    X(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)                                       \
    X(memPitch, MAX_PITCH)                                                                  \
    X(totalConstMem, TOTAL_CONSTANT_MEMORY)                                                 \
    X(textureAlignment, TEXTURE_ALIGNMENT)                                                  \
    X(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)                                       \
    X(surfaceAlignment, SURFACE_ALIGNMENT)                                                  \
    X(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)                     \
    X(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                            \
    X(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK)

#if CUDART_VERSION < 13000
#    define OLD_NUMBERS(X)                                                         \
        X(clockRate, CLOCK_RATE)                                                   \
        X(deviceOverlap, GPU_OVERLAP)                                              \
        X(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT)                           \
        X(computeMode, COMPUTE_MODE)                                               \
        X(memoryClockRate, MEMORY_CLOCK_RATE)                                      \
        X(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) \
        X(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH)
#else
#    define OLD_NUMBERS(X)
#endif

static int number(CUdevice device, CUdevice_attribute attribute)
{
    int value = 0; /* fields that the driver does not report are zero */
    return rt_driver.cuDeviceGetAttribute(&value, attribute, device) ? 0 : value;
}

static cudaError_t properties(cudaDeviceProp *prop, int ordinal)
{
    CUdevice device;
    if (!prop) {
        return rt_end(cudaErrorInvalidValue);
    }
    RT_TRY(rt_start());
    RT_TRY(rt_driver.cuDeviceGet(&device, ordinal));
    memset(prop, 0, sizeof *prop);
    RT_TRY(rt_driver.cuDeviceGetName(prop->name, sizeof prop->name, device));
    RT_TRY(rt_driver.cuDeviceGetUuid(&prop->uuid, device));
    RT_TRY(rt_driver.cuDeviceTotalMem(&prop->totalGlobalMem, device));
#define X(field, attribute) \
    prop->field = (__typeof__(prop->field))number(device, CU_DEVICE_ATTRIBUTE_##attribute);
    NUMBERS(X)
    OLD_NUMBERS(X)
#undef X
    prop->ipcEventSupported = 1;
    prop->unifiedFunctionPointers = 0;
    return cudaSuccess;
}

#if CUDART_VERSION < 13000
RT_CALL(cudaGetDeviceProperties_v2, cudaDeviceProp *prop, int device)
#else
RT_CALL(cudaGetDeviceProperties, cudaDeviceProp *prop, int device)
#endif
{
    return properties(prop, device);
}
