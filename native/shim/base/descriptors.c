#include "shim/base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int descriptors_move(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = moved < 0 ? -errno : 0;
    close(fd);
    return error ? error : moved;
}
