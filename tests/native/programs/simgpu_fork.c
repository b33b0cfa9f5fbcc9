/* A child of a process that uses the GPU gets an error, not a hang; a child from before may use it. */
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

int main(void)
{
    int status;
    pid_t early = fork();
    if (early == 0) {
        begin();
        _exit(0);
    }
    CHECK(waitpid(early, &status, 0) == early && status == 0);
    begin();
    OK(cuStreamSynchronize(NULL));
    pid_t late = fork();
    if (late == 0) {
        CUdeviceptr p;
        CHECK(cuMemAlloc_v2(&p, 8) == CUDA_ERROR_NOT_INITIALIZED);
        CHECK(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
        exit(0); /* with its destructors */
    }
    CHECK(waitpid(late, &status, 0) == late && status == 0);
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 8));
    OK(cuMemFree_v2(p));
    puts("ok");
    return 0;
}
