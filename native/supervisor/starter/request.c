#include "supervisor/starter/request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"

#ifndef SYS_memfd_create
#    define SYS_memfd_create 319
#endif
#ifndef F_ADD_SEALS
#    define F_ADD_SEALS 1033
#endif
#define SPEC_CLOEXEC 1u  /* MFD_CLOEXEC */
#define SPEC_SEALABLE 2u /* MFD_ALLOW_SEALING */
#define SPEC_SEALS 0xf   /* F_SEAL_SEAL, _SHRINK, _GROW and _WRITE */

/* Only its owner may have changed it. */
static int check_owner(const struct stat *status, uid_t server)
{
    return status->st_uid == server && !(status->st_mode & (S_IWGRP | S_IWOTH)) ? 0 : -EPERM;
}

/* The owner of the pool's folder is the server; -EPERM if others can write there. */
int request_check_pool(int pool, uid_t *server)
{
    struct stat status;
    if (fstat(pool, &status)) {
        return -errno;
    }
    *server = status.st_uid;
    return S_ISDIR(status.st_mode) ? check_owner(&status, status.st_uid) : -ENOTDIR;
}

/* Copies a file into one of memory that cannot be changed any more: what is checked is what is run. */
static int sealed_copy(int file, off_t bytes)
{
    int copy = (int)syscall(SYS_memfd_create, "moiety-spec", SPEC_CLOEXEC | SPEC_SEALABLE);
    if (copy < 0) {
        return -errno;
    }
    int failed = 0;
    while (bytes > 0 && !failed) {
        ssize_t done = sendfile(copy, file, NULL, (size_t)bytes);
        failed = done > 0 ? 0 : (done < 0 ? -errno : -EBADMSG);
        bytes -= done;
    }
    if (!failed && fcntl(copy, F_ADD_SEALS, SPEC_SEALS)) {
        failed = -errno;
    }
    if (failed) {
        close(copy);
        return failed;
    }
    return copy;
}

static int copy_spec(int folder, uid_t server)
{
    struct stat status;
    CLOSING int file = openat(folder, "spec", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) {
        return -errno;
    }
    int failed = S_ISREG(status.st_mode) ? check_owner(&status, server) : -EINVAL;
    if (!failed && status.st_size > SPEC_BYTES_MAX) {
        failed = -EFBIG;
    }
    return failed ? failed : sealed_copy(file, status.st_size);
}

/* The folder of a workload, if it is the server's alone. */
int request_open_folder(int pool, uid_t server, const char *id)
{
    struct stat status;
    int folder = openat(pool, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        return -errno;
    }
    int failed = fstat(folder, &status) ? -errno : check_owner(&status, server);
    if (failed) {
        close(folder);
        return failed;
    }
    return folder;
}

static int read_spec(struct request *request, const char *id)
{
    const char *wrong;
    request->spec_fd = copy_spec(request->folder, request->server);
    if (request->spec_fd < 0) {
        return request->spec_fd;
    }
    int failed = spec_map(request->spec_fd, &request->spec);
    failed = failed ? failed : spec_read(&request->spec, &wrong);
    return failed || !strcmp(request->spec.id, id) ? failed : -EINVAL;
}

/* Opens the folder of a workload and copies its spec, if both are the server's alone. */
int request_open(struct request *request, int pool, uid_t server, const char *id)
{
    *request = (struct request){.folder = -1, .spec_fd = -1, .server = server};
    request->folder = request_open_folder(pool, server, id);
    int failed = request->folder < 0 ? request->folder : read_spec(request, id);
    if (failed) {
        request_close(request);
    }
    return failed;
}

void request_close(struct request *request)
{
    spec_unmap(&request->spec);
    descriptor_close(&request->folder);
    descriptor_close(&request->spec_fd);
    request->folder = request->spec_fd = -1;
}
