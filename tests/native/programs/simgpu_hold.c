/* simgpu_hold BYTES: allocates, says so, and holds on until its input ends. Then simgpu_hold asks what is free.
 * With `export`, the memory is shared: the descriptor's number is printed, to be opened through /proc. */
#include <stdint.h>

#include "simgpu_check.h"

int main(int argc, char **argv)
{
    begin();
    size_t bytes = strtoull(argv[1], NULL, 10), available, total;
    CUdeviceptr p = 0;
    int file = -1;
    if (argc > 2 && strcmp(argv[2], "export") == 0) {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes =
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        CUmemGenericAllocationHandle chunk;
        OK(cuMemCreate(&chunk, bytes, &prop, 0));
        OK(cuMemExportToShareableHandle(&file, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    } else if (bytes) {
        CUresult result = cuMemAlloc_v2(&p, bytes);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            puts("out of memory");
            return 2;
        }
        OK(result);
    }
    OK(cuMemGetInfo_v2(&available, &total));
    printf("%zu %zu %d\n", available, total, file);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
