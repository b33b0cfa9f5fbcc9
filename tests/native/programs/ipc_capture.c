/* Memory of another process is closed while a stream is captured, and while work beside the capture uses it.
 *
 *   ipc_capture   with KERNELS; runs itself once more as the process that opens the memory */
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

#define BYTES (8ull << 20)
#define KERNEL_US 200000ull

static int import(void)
{
    CUipcMemHandle handle;
    CUdeviceptr at, seen;
    CUstream works, captures;
    CUgraph graph;
    uint64_t us = KERNEL_US;
    uint32_t word = 0;
    CHECK(read(3, &handle, sizeof(handle)) == sizeof(handle));
    begin();
    OK(cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&captures, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&seen, 4));
    OK(cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuStreamBeginCapture_v2(captures, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(seen, 1, 1, captures));
    LAUNCH(kernel("spin_us"), works, &us);
    OK(cuMemcpyDtoDAsync_v2(seen, at + BYTES - 4, 4, works));
    OK(cuIpcCloseMemHandle(at));
    OK(cuMemcpyDtoHAsync_v2(&word, seen, 4, works));
    OK(cuStreamSynchronize(works));
    CHECK(word == 77);
    OK(cuStreamEndCapture(captures, &graph)); /* it has not noticed */
    puts("ok");
    return 0;
}

int main(int argc, char **argv)
{
    int tube[2], status;
    CUipcMemHandle handle;
    CUdeviceptr at;
    if (argc > 1) {
        return import();
    }
    CHECK(pipe(tube) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(tube[0], 3);
        execl("/proc/self/exe", "ipc_capture", "import", NULL);
        _exit(1);
    }
    begin();
    OK(cuMemAlloc_v2(&at, BYTES));
    OK(cuMemsetD32_v2(at, 77, BYTES / 4));
    OK(cuIpcGetMemHandle(&handle, at));
    CHECK(write(tube[1], &handle, sizeof(handle)) == sizeof(handle));
    CHECK(waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status);
}
