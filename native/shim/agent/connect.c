#include "shim/agent/connect.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/base/descriptors.h"

static int receive_welcome(int socket, union agent_message *answer, int *lease_fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {answer, sizeof(*answer)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    ssize_t n;
    do {
        n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < (ssize_t)sizeof(struct mw_header)) {
        return n < 0 ? -errno : -ECONNRESET;
    }
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        memcpy(lease_fd, CMSG_DATA(c), sizeof(int));
    }
    if (answer->header.type == MW_WELCOME && *lease_fd >= 0) {
        return 0;
    }
    return -EPROTO;
}

static int say_hello(int socket, const struct mw_hello *hello, int memfd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)hello, sizeof(*hello)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &memfd, sizeof(int));
    return sendmsg(socket, &packet, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int connect_agent(const char *path, const struct mw_hello *hello, int memfd,
                  union agent_message *answer, int *lease_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(answer, 0, sizeof(*answer));
    *lease_fd = -1;
    if (strlen(path) >= sizeof(address.sun_path)) {
        return -ENAMETOOLONG;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    made = made < 0 ? -errno : descriptors_move(made);
    if (made < 0) {
        return made;
    }
    int error = connect(made, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    if (!error) {
        error = say_hello(made, hello, memfd);
    }
    if (!error) {
        error = receive_welcome(made, answer, lease_fd);
    }
    if (error) {
        if (*lease_fd >= 0) {
            close(*lease_fd);
        }
        close(made);
        return error;
    }
    return made;
}
