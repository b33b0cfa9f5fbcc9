#include "supervisor/supervisor/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTHING "/dev/null"
#define FLAGS (O_NOCTTY | O_NONBLOCK | O_CLOEXEC)

/* Only files: the reader of a pipe could stop the program. O_NONBLOCK was for opening only. */
static int check_kind(int fd)
{
    struct stat status;
    if (fstat(fd, &status)) {
        return -errno;
    }
    if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
        return S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
    }
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) ? -errno : 0;
}

/* Puts an open file in the place of a standard descriptor. */
static int take_place(int fd, int place)
{
    int failed = check_kind(fd);
    if (!failed && fd != place && dup2(fd, place) < 0) {
        failed = -errno;
    }
    if (fd != place) {
        close(fd);
    }
    return failed;
}

static int open_input(const char *path)
{
    int fd = open(path, O_RDONLY | FLAGS);
    return fd < 0 ? -errno : take_place(fd, STDIN_FILENO);
}

static void note_made(struct made *made, const char *path, int fd)
{
    struct stat status;
    if (!fstat(fd, &status)) {
        *made = (struct made){.path = path, .device = status.st_dev, .inode = status.st_ino};
    }
}

/* Makes the folders above a file, as far as they are not there. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    size_t size = strlen(path);
    if (size >= sizeof folder) {
        return;
    }
    for (size_t i = 1; i < size; i++) {
        if (path[i] == '/') {
            memcpy(folder, path, i);
            folder[i] = 0;
            (void)mkdir(folder, 0777); /* if it fails, so does the open that follows */
        }
    }
}

/* Opens a file to append to; makes it, and folders for it, if they are not there. A link in its place is refused. */
static int open_output(const char *path, int place, struct made *made)
{
    int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | FLAGS;
    int fd = open(path, flags | O_CREAT | O_EXCL, 0666);
    if (fd < 0 && errno == ENOENT) {
        make_folders(path);
        fd = open(path, flags | O_CREAT | O_EXCL, 0666);
    }
    if (fd >= 0) {
        note_made(made, path, fd);
    } else if (errno == EEXIST) {
        fd = open(path, flags);
    }
    if (fd < 0 && errno == ENXIO) {
        errno = ESPIPE; /* a pipe without a reader */
    }
    return fd < 0 ? -errno : take_place(fd, place);
}

static int truncate_file(int fd)
{
    struct stat status;
    if (fstat(fd, &status)) {
        return -errno;
    }
    return S_ISREG(status.st_mode) && ftruncate(fd, 0) ? -errno : 0;
}

static int open_all(struct outputs *outputs, const struct spec *spec, const char **wrong)
{
    const char *input = spec_value(spec, "stdin");
    const char *output = spec_value(spec, "stdout");
    const char *errors = spec_value(spec, "stderr");
    *wrong = input ? input : NOTHING;
    int failed = open_input(*wrong);
    if (failed) {
        return failed;
    }
    *wrong = output ? output : NOTHING;
    failed = open_output(*wrong, STDOUT_FILENO, &outputs->made[0]);
    if (failed) {
        return failed;
    }
    if (!errors || (output && !strcmp(output, errors))) {
        return dup2(STDOUT_FILENO, STDERR_FILENO) < 0 ? -errno : 0;
    }
    *wrong = errors;
    return open_output(errors, STDERR_FILENO, &outputs->made[1]);
}

/* Opens all three in place of the standard descriptors. If one cannot be opened, says which, and leaves none. */
int outputs_open(struct outputs *outputs, const struct spec *spec, const char **wrong)
{
    *outputs = (struct outputs){0};
    int failed = open_all(outputs, spec, wrong);
    if (!failed && spec->truncates_output) {
        failed = truncate_file(STDOUT_FILENO);
        failed = failed ? failed : truncate_file(STDERR_FILENO);
    }
    if (failed) {
        outputs_undo(outputs);
    }
    return failed;
}

/* Removes the files that were made for this start. */
void outputs_undo(const struct outputs *outputs)
{
    for (size_t i = 0; i < 2; i++) {
        const struct made *made = &outputs->made[i];
        struct stat status;
        if (made->path && !lstat(made->path, &status) && status.st_dev == made->device &&
            status.st_ino == made->inode) {
            (void)unlink(made->path);
        }
    }
}
