/* Events between two processes: one records behind work that waits for the other, which looks at the
 * event before it lets that work go on, and after. */
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

#define PAGE_BYTES 4096u

static volatile uint32_t *may_go_on; /* in memory of both */

static void record(int out, int in)
{
    CUevent event, timed;
    CUipcEventHandle handle;
    CUdeviceptr word;
    char byte;
    begin();
    OK(cuMemHostRegister_v2((void *)may_go_on, PAGE_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer_v2(&word, (void *)may_go_on, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, timed));
    OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cuEventQuery(event)); /* never recorded */
    OK(cuIpcGetEventHandle(&handle, event));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(NULL, event));
    OK(cuStreamWaitValue32(NULL, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuEventRecord(event, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CHECK(write(out, &handle, sizeof handle) == sizeof handle);
    OK(cuEventSynchronize(event));
    CHECK(read(in, &byte, 1) == 1);
    /* Destroyed with work before it: that work still finds its page. */
    OK(cuStreamWaitValue32(NULL, word, 2, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuEventRecord(event, NULL));
    OK(cuEventDestroy_v2(event));
    *may_go_on = 2;
    OK(cuCtxSynchronize());
}

static void await(int in, int out)
{
    CUevent event;
    CUstream stream;
    CUipcEventHandle handle, made_up = {"made up"};
    begin();
    CHECK(read(in, &handle, sizeof handle) == sizeof handle);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&event, made_up));
    OK(cuIpcOpenEventHandle(&event, handle));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitEvent(stream, event, 0));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    *may_go_on = 1;
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(event));
    OK(cuEventDestroy_v2(event));
    CHECK(write(out, "", 1) == 1);
}

int main(void)
{
    int there[2], back[2], status = 1;
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    may_go_on = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(may_go_on != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        record(there[1], back[0]);
        return 0;
    }
    await(there[0], back[1]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}
