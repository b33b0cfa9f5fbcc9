#include "shim/agent/one_question.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int converse(int fd, const struct sockaddr_un *address, const void *question, void *answer,
                    size_t bytes)
{
    size_t asked = ((const struct mw_header *)question)->bytes;
    ssize_t got = -1;
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
        send(fd, question, asked, MSG_NOSIGNAL) == (ssize_t)asked) {
        do {
            got = recv(fd, answer, bytes, 0);
        } while (got < 0 && errno == EINTR);
    }
    return got > 0 ? (int)got : got < 0 ? -errno : -ECONNRESET;
}

int one_question_ask(const void *question, void *answer, size_t bytes, enum mw_type type,
                     unsigned patience_s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = (time_t)patience_s};
    const char *path = getenv("MOIETY_SOCKET");
    if (!path || !*path || strlen(path) >= sizeof(address.sun_path)) {
        return -ENOENT;
    }
    memcpy(address.sun_path, path, strlen(path));
    int kept = errno;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int got = -errno;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        got = converse(fd, &address, question, answer, bytes);
        close(fd);
    }
    errno = kept;
    const struct mw_header *header = answer;
    if (got < 0) {
        return got;
    }
    return (size_t)got == bytes && header->type == type && header->bytes == bytes ? 0 : -EPROTO;
}
