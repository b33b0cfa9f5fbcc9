/* Two processes of one workload with a limit: the free memory that either sees is what both have left.
 *
 *   limit_together   runs itself once more as the other process, after the first has allocated */
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define OURS (64 * MIB)
#define THEIRS (32 * MIB)

static size_t free_bytes(void)
{
    size_t left, all;
    OK(cuMemGetInfo_v2(&left, &all));
    return left;
}

/* In the other process: it allocates all that it sees, frees it, keeps a part, and says how much there was. */
static int other(void)
{
    size_t all, left;
    CUdeviceptr at;
    begin();
    OK(cuMemGetInfo_v2(&left, &all));
    CHECK(left == all - OURS);
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&at, left + 2 * MIB));
    OK(cuMemAlloc_v2(&at, left));
    CHECK(free_bytes() == 0);
    OK(cuMemFree_v2(at));
    OK(cuMemAlloc_v2(&at, THEIRS));
    CHECK(free_bytes() == all - OURS - THEIRS);
    char line = 'a';
    CHECK(write(4, &line, 1) == 1 && read(3, &line, 1) == 1);
    return 0;
}

int main(int argc, char **argv)
{
    int to[2], from[2], status;
    CUdeviceptr at;
    char line;
    if (argc > 1) {
        return other();
    }
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    begin();
    size_t before = free_bytes();
    OK(cuMemAlloc_v2(&at, OURS));
    CHECK(free_bytes() == before - OURS);
    pid_t child = fork();
    if (child == 0) {
        dup2(to[0], 3);
        dup2(from[1], 4);
        execl("/proc/self/exe", "limit_together", "other", NULL);
        _exit(1);
    }
    close(from[1]);
    if (read(from[0], &line, 1) == 1) {
        CHECK(free_bytes() == before - OURS - THEIRS);
        OK(cuMemAlloc_v2(&at, free_bytes()));
        CHECK(free_bytes() == 0);
        CHECK(write(to[1], &line, 1) == 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("ok");
    return 0;
}
