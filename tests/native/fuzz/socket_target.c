/* Fuzz target: whatever an agent sends, as the shim's connection takes it in.
 *
 * The input is a row of packets: a length (2 bytes), how many descriptors come with it and who hears
 * it (1 byte), and its bytes. Nothing may crash, hang or keep a descriptor.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/agent/socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool takes(int type) { return type == MW_GRANT || type == MW_REVOKE || type == MW_REFUSED; }

static void send_packet(int to, const uint8_t *bytes, size_t size, unsigned fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(16 * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fds) {
        packet.msg_control = &control;
        packet.msg_controllen = CMSG_SPACE(fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds * sizeof(int));
        for (unsigned i = 0; i < fds; i++) {
            memcpy(CMSG_DATA(c) + i * sizeof(int), &to, sizeof(int));
        }
    }
    sendmsg(to, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int hear(unsigned how)
{
    union agent_message message;
    int got = how % 3 == 0   ? agent_receive(&message, 0)
              : how % 3 == 1 ? agent_fetch(MW_ARENA, &message, 0)
                             : agent_sift(takes, &message);
    if (got > 0) {
        struct agent_request *request = agent_take(message.header.serial);
        if (message.header.bytes > sizeof(message)) {
            abort(); /* whoever reads so many bytes reads beyond it */
        }
        if (request) {
            abort(); /* nobody has asked anything */
        }
    }
    if (how & 4) {
        int fd = agent_take_fd();
        if (fd >= 0) {
            close(fd);
        }
    }
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        abort();
    }
    agent_begin(pair[0], NULL, 0);
    while (size > 3) {
        size_t length = data[0] | (size_t)(data[1] & 3) << 8;
        unsigned how = data[2];
        data += 3;
        size -= 3;
        length = length < size ? length : size;
        send_packet(pair[1], data, length, how >> 4 & 15);
        data += length;
        size -= length;
        if (hear(how) < 0) {
            break; /* an empty packet is an end */
        }
    }
    close(pair[1]);
    for (int i = 0; i < 64 && hear(4) >= 0; i++) {
    }
    agent_close();
    agent_after_fork(); /* which forgets what it has taken and nobody fetched */
    return 0;
}
