#include "supervisor/base/start_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes the lock, which lasts until the descriptor is closed; -EWOULDBLOCK if another has it. */
int start_lock_take(int folder)
{
    struct stat status;
    int fd = openat(folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) {
        return -errno;
    }
    int failed = fstat(fd, &status) ? -errno : (S_ISREG(status.st_mode) ? 0 : -EINVAL);
    if (!failed && flock(fd, LOCK_EX | LOCK_NB)) {
        failed = -errno;
    }
    if (failed) {
        close(fd);
        return failed;
    }
    return fd;
}
