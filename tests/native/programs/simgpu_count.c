/* How many GPUs there are. */
#include "simgpu_check.h"

int main(void)
{
    int count = 0;
    if (cuInit(0) == CUDA_SUCCESS) {
        OK(cuDeviceGetCount(&count));
    }
    printf("%d\n", count);
    return 0;
}
