#include "agent/packet.h"

#include <string.h>
#include <sys/socket.h>

#include "agent/agent_abi.h"

static uint32_t descriptors(struct msghdr *message, int *fds)
{
    uint32_t count = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
            uint32_t more = (uint32_t)((each->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            more = more > MA_FDS_MAX - count ? MA_FDS_MAX - count : more;
            memcpy(fds + count, CMSG_DATA(each), more * sizeof(int));
            count += more;
        }
    }
    return count;
}

/* Reads a packet of MA_PACKET_BYTES at most, and MA_FDS_MAX descriptors; never waits. As recvmsg(2). */
ssize_t packet_receive(int fd, void *packet, int *fds, uint32_t *count)
{
    char control[CMSG_SPACE(MA_FDS_MAX * sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {.iov_base = packet, .iov_len = MA_PACKET_BYTES};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *count = got < 0 ? 0 : descriptors(&message, fds);
    return got;
}
