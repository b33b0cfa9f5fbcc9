/* A program that closed stdin, stdout and stderr before it began to use the GPU.
 *
 *   no_stderr FILE   where it writes what is in their places */
#include <unistd.h>

#include "simgpu_check.h"

int main(int argc, char **argv)
{
    char link[32], target[256];
    CUdeviceptr at;
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        close(fd);
    }
    begin();
    OK(cuMemAlloc_v2(&at, 1 << 20));
    OK(cuMemsetD32_v2(at, 1, 1 << 10));
    FILE *file = fopen(argc > 1 ? argv[1] : "found", "we");
    CHECK(file != NULL);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(link, target, sizeof(target));
        fprintf(file, "%.*s\n", bytes > 0 ? (int)bytes : 0, target);
    }
    fclose(file);
    return 0;
}
