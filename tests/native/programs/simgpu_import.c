/* simgpu_import PATH BYTES: imports what another process exported, says so, and holds on until its input ends. */
#include <fcntl.h>
#include <stdint.h>

#include "simgpu_check.h"

int main(int argc, char **argv)
{
    CUmemGenericAllocationHandle chunk;
    CUdeviceptr at;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(argc == 3);
    begin();
    size_t bytes = strtoull(argv[2], NULL, 10);
    int file = open(argv[1], O_RDONLY);
    CHECK(file >= 0);
    OK(cuMemImportFromShareableHandle(&chunk, (void *)(intptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    OK(cuMemMap(at, bytes, 0, chunk, 0));
    OK(cuMemSetAccess(at, bytes, &access, 1));
    OK(cuMemsetD8_v2(at, 1, bytes));
    OK(cuCtxSynchronize());
    puts("imported");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
