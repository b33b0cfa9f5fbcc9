#include "simgpu/api/fake_entrypoints.h"

#include <string.h>

#include "simgpu/base/entry.h"

CUDA_EXPORT int cuSimgpuSum(double *sum, int a, long long b, int c, long long d, int e, long long f,
                            int g, double h, double i)
{
    *sum = a + (double)b + c + (double)d + e + (double)f + g + h + i;
    return (int)sg_enter();
}

CUDA_EXPORT int cuSimgpuCall(int (*function)(void *argument), void *argument)
{
    return function(argument);
}

/* NVIDIA's runtime asks here for functions without names, and for proof that the driver is NVIDIA's. This
 * driver has no such table; it has one table for tests. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    static const CUuuid ours = {SIMGPU_EXPORT_TABLE};
    static const struct {
        size_t bytes; /* the size of the table in bytes: every table begins with it */
        CUresult (*function)(void);
    } one = {sizeof one, sg_enter};
    if (!table || !id) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *table = memcmp(id, &ours, sizeof ours) == 0 ? &one : NULL;
    return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
