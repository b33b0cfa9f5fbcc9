#include "supervisor/base/start_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"
#include "supervisor/base/ending.h"
#include "supervisor/base/record.h"

#define PATIENCE_MS 1000u
#define STEP_NS 5000000
#define FLAGS (O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

/* Opens the file, or makes it for the folder's owner. Only a new file is given away: an old one may be a link. */
static int open_lock(int folder, const char *name)
{
    int fd = openat(folder, name, FLAGS);
    if (fd < 0 && errno == ENOENT) {
        fd = openat(folder, name, FLAGS | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) {
            (void)descriptor_give_to_owner(folder, fd);
        } else if (errno == EEXIST) {
            fd = openat(folder, name, FLAGS); /* another was quicker */
        }
    }
    return fd < 0 ? -errno : fd;
}

static int take(int folder, const char *name)
{
    struct stat status;
    int fd = open_lock(folder, name);
    if (fd < 0) {
        return fd;
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

/* Takes the lock, which lasts until the descriptor is closed; -EWOULDBLOCK if another has it. */
int start_lock_take(int folder) { return take(folder, "lock"); }

/* Takes the lock by which the server knows that a supervisor is about to begin: it has it until it has the other. */
int start_lock_announce(int folder) { return take(folder, "launch"); }

/* Takes the lock for the start of an attempt. Where a supervisor was killed, a process that it had just forked has the
 * lock for another moment, so one that is held counts only once there is a record, or after a second. */
int start_lock_wait(int folder, uint64_t attempt)
{
    uint64_t until_ms = ending_now_ms() + PATIENCE_MS;
    for (;;) {
        int fd = start_lock_take(folder);
        if (fd != -EWOULDBLOCK || record_was_started(folder, attempt) ||
            ending_now_ms() > until_ms) {
            return fd;
        }
        struct timespec step = {.tv_nsec = STEP_NS};
        (void)nanosleep(&step, NULL);
    }
}
