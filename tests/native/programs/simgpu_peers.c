/* Two GPUs: memory is where it was allocated, and copies go across. */
#include <stdint.h>

#include "simgpu_check.h"

int main(void)
{
    CUcontext one, two;
    CUdeviceptr p, q;
    size_t free_one, free_two, total;
    int can = 0, device = -1;
    uint64_t n = 1000, seed = 3, a = 0, b = 0;
    OK(cuInit(0));
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can);
    OK(cuCtxCreate_v2(&two, 0, 1));
    OK(cuMemAlloc_v2(&q, n * 8));
    OK(cuMemGetInfo_v2(&free_two, &total));
    OK(cuCtxCreate_v2(&one, 0, 0));
    OK(cuMemAlloc_v2(&p, 32u << 20));
    OK(cuMemGetInfo_v2(&free_one, &total));
    CHECK(free_two - free_one == 30u << 20);
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
    CHECK(device == 1);
    LAUNCH(kernel("fill_u64"), NULL, &p, &n, &seed);
    OK(cuMemcpyPeer(q, two, p, one, n * 8));
    OK(cuMemcpyDtoH_v2(&a, p + 8, 8));
    OK(cuMemcpyDtoH_v2(&b, q + 8, 8));
    CHECK(a == b && a != 0);
    OK(cuCtxEnablePeerAccess(two, 0));
    EXPECT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(two, 0));
    OK(cuCtxDestroy_v2(one));
    OK(cuCtxDestroy_v2(two));
    puts("ok");
    return 0;
}
