/* Entry points that exist, so that programs can find them, and that always say no. */
#include "simgpu/driver.h"

#define CALL(name, parameters)                               \
    CUresult name parameters                                 \
    {                                                        \
        CUresult entered = sg_enter();                       \
        return entered ? entered : CUDA_ERROR_NOT_SUPPORTED; \
    }
#define UNUSED __attribute__((unused))

CALL(cuArrayCreate_v2, (CUarray * array UNUSED, const CUDA_ARRAY_DESCRIPTOR *descriptor UNUSED))
CALL(cuArray3DCreate_v2, (CUarray * array UNUSED, const CUDA_ARRAY3D_DESCRIPTOR *descriptor UNUSED))
CALL(cuArrayDestroy, (CUarray array UNUSED))
CALL(cuMemcpyDtoA_v2,
     (CUarray dst UNUSED, size_t offset UNUSED, CUdeviceptr src UNUSED, size_t bytes UNUSED))
CALL(cuMemcpyAtoD_v2,
     (CUdeviceptr dst UNUSED, CUarray src UNUSED, size_t offset UNUSED, size_t bytes UNUSED))
CALL(cuMemcpyHtoA_v2,
     (CUarray dst UNUSED, size_t offset UNUSED, const void *src UNUSED, size_t bytes UNUSED))
CALL(cuMemcpyAtoH_v2,
     (void *dst UNUSED, CUarray src UNUSED, size_t offset UNUSED, size_t bytes UNUSED))
CALL(cuMemcpyAtoA_v2, (CUarray dst UNUSED, size_t dst_offset UNUSED, CUarray src UNUSED,
                       size_t src_offset UNUSED, size_t bytes UNUSED))
CALL(cuMemcpyHtoAAsync_v2, (CUarray dst UNUSED, size_t offset UNUSED, const void *src UNUSED,
                            size_t bytes UNUSED, CUstream stream UNUSED))
CALL(cuMemcpyAtoHAsync_v2, (void *dst UNUSED, CUarray src UNUSED, size_t offset UNUSED,
                            size_t bytes UNUSED, CUstream stream UNUSED))
CALL(cuMemcpy3DBatchAsync,
     (size_t count UNUSED, CUDA_MEMCPY3D_BATCH_OP *ops UNUSED, size_t *failed UNUSED,
      unsigned long long flags UNUSED, CUstream stream UNUSED))
CALL(cuMemcpy3DBatchAsync_v2, (size_t count UNUSED, CUDA_MEMCPY3D_BATCH_OP *ops UNUSED,
                               unsigned long long flags UNUSED, CUstream stream UNUSED))
CALL(cuGraphDebugDotPrint,
     (CUgraph graph UNUSED, const char *path UNUSED, unsigned int flags UNUSED))

/* NVIDIA's own runtime asks here for proof that the driver is NVIDIA's. This one is not, and says so. */
CALL(cuGetExportTable, (const void **table UNUSED, const CUuuid *id UNUSED))
