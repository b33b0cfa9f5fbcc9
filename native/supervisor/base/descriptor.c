#include "supervisor/base/descriptor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#    define SYS_close_range 436
#endif
#define RANGE_CLOEXEC 4u /* CLOSE_RANGE_CLOEXEC, Linux 5.11 */

void descriptor_close(const int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

/* The descriptor that a decimal argument names, if it is open; else a negative errno. */
int descriptor_number(const char *text)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 0 || number > INT_MAX) {
        return -EINVAL;
    }
    return fcntl((int)number, F_GETFD) < 0 ? -errno : (int)number;
}

static bool is_kept(int fd, const int *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kept[i] == fd) {
            return true;
        }
    }
    return false;
}

/* Calls a function for each open descriptor from this one on: for kernels without close_range(2). */
static int each_from(int first, void (*act)(int fd))
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) {
        return -errno;
    }
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        int fd = descriptor_number(entry->d_name);
        if (fd >= first && fd != dirfd(folder)) {
            act(fd);
        }
    }
    closedir(folder);
    return 0;
}

static void close_one(int fd) { close(fd); }

static void close_at_exec(int fd) { (void)fcntl(fd, F_SETFD, FD_CLOEXEC); }

static void close_between(int first, int last)
{
    if (first <= last && syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) < 0) {
        for (int fd = first; fd <= last && fd < 65536; fd++) {
            close(fd);
        }
    }
}

/* Closes all but the standard descriptors and these; these are not passed on to a program. */
void descriptor_keep_only(const int *kept, size_t count)
{
    int highest = STDERR_FILENO;
    for (size_t i = 0; i < count; i++) {
        highest = kept[i] > highest ? kept[i] : highest;
        close_at_exec(kept[i]);
    }
    int first = STDERR_FILENO + 1;
    for (int fd = first; fd <= highest; fd++) {
        if (is_kept(fd, kept, count)) {
            close_between(first, fd - 1);
            first = fd + 1;
        }
    }
    if (syscall(SYS_close_range, (unsigned)highest + 1, ~0u, 0u) < 0) {
        (void)each_from(highest + 1, close_one);
    }
}

/* Closes all descriptors from this one on when a program is executed. */
int descriptor_cloexec_from(int first)
{
    if (!syscall(SYS_close_range, (unsigned)first, ~0u, RANGE_CLOEXEC)) {
        return 0;
    }
    return each_from(first, close_at_exec);
}

/* Opens /dev/null where a standard descriptor is closed: no file of ours gets its number. */
int descriptor_fill_standard(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0) {
            return -errno;
        }
    } while (fd <= STDERR_FILENO);
    close(fd);
    return 0;
}

void descriptor_to_null(int fd)
{
    CLOSING int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0) {
        (void)dup2(null_fd, fd);
    }
}

/* Reads a small file whole and ends it with NUL; -EFBIG if it has more than fits. */
ssize_t descriptor_read_text(int folder, const char *name, char *text, size_t capacity)
{
    CLOSING int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    size_t count = 0;
    for (;;) {
        ssize_t got = read(fd, text + count, capacity - count);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -errno;
        }
        if (got == 0) {
            break;
        }
        count += (size_t)got;
        if (count == capacity) {
            return -EFBIG;
        }
    }
    text[count] = '\0';
    return (ssize_t)count;
}

int descriptor_write_all(int fd, const char *bytes, size_t count)
{
    while (count) {
        ssize_t done = write(fd, bytes, count);
        if (done < 0 && errno != EINTR) {
            return -errno;
        }
        if (done > 0) {
            bytes += done;
            count -= (size_t)done;
        }
    }
    return 0;
}

/* Writes a text to a file that exists, as the kernel's own files are written. */
int descriptor_write_text(int folder, const char *name, const char *text)
{
    CLOSING int fd = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : descriptor_write_all(fd, text, strlen(text));
}

/* Gives a new file to the owner of its folder: the server, which is another user than we where we are root. */
int descriptor_give_to_owner(int folder, int fd)
{
    struct stat status;
    if (fstat(folder, &status)) {
        return -errno;
    }
    bool is_foreign = geteuid() == 0 && (status.st_uid != 0 || status.st_gid != 0);
    return is_foreign && fchown(fd, status.st_uid, status.st_gid) ? -errno : 0;
}
