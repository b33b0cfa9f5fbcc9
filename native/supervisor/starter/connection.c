#include "supervisor/starter/connection.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"

#define BACKLOG 8
#define REPLY_BYTES 256u

/* A socket without a peer listens from here on: to call listen(2) here makes us the process that others see. */
int connection_init(struct connection *connection, int fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    *connection = (struct connection){.listener = -1, .socket = fd};
    if (!getpeername(fd, (struct sockaddr *)&peer, &bytes)) {
        return 0;
    }
    *connection = (struct connection){.listener = fd, .socket = -1};
    return listen(fd, BACKLOG) ? -errno : 0;
}

/* Whether a server is there or may come. */
bool connection_is_open(const struct connection *connection)
{
    return connection->socket >= 0 || connection->listener >= 0;
}

/* Reads a packet as a text; its length, which is `bytes` or more if it does not fit. -EPIPE: the server has gone. */
ssize_t connection_read(struct connection *connection, short events, char *packet, size_t bytes)
{
    ssize_t got = recv(connection->socket, packet, bytes - 1, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0) {
        return -errno; /* interrupted, or a server that went without reading our packets; the end comes next */
    }
    if (got == 0 && (events & (POLLHUP | POLLRDHUP))) {
        return -EPIPE;
    }
    packet[got < (ssize_t)bytes ? got : 0] = '\0';
    return got;
}

/* The next server, if it is who it should be; else a negative errno. */
int connection_accept(const struct connection *connection, uid_t server)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    int fd = accept4(connection->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int failed = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ? -errno : 0;
    if (!failed && peer.uid != server) {
        failed = -EPERM;
    }
    if (failed) {
        close(fd);
        return failed;
    }
    return fd;
}

/* Tells the server; a server that does not listen misses it. */
void connection_tell(const struct connection *connection, const char *id, int number,
                     const char *text)
{
    char packet[REPLY_BYTES];
    int length = snprintf(packet, sizeof packet, "%s %d %s", id, number, text);
    size_t bytes = length < (int)sizeof packet ? (size_t)length : sizeof packet - 1;
    if (connection->socket >= 0) {
        (void)send(connection->socket, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void connection_hang_up(struct connection *connection)
{
    descriptor_close(&connection->socket);
    connection->socket = -1;
}

/* Takes no server any more. */
void connection_close(struct connection *connection)
{
    connection_hang_up(connection);
    descriptor_close(&connection->listener);
    connection->listener = -1;
}
