/* The socket to the server: one that was passed connected, or one that listens for the next server. */
#ifndef MOIETY_SUPERVISOR_CONNECTION_H
#define MOIETY_SUPERVISOR_CONNECTION_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct connection {
    int listener; /* negative if there is none */
    int socket;   /* negative while no server is there */
};

int connection_init(struct connection *connection, int fd);
bool connection_is_open(const struct connection *connection);
ssize_t connection_read(struct connection *connection, short events, char *packet, size_t bytes);
int connection_accept(const struct connection *connection, uid_t server);
void connection_tell(const struct connection *connection, const char *id, int number,
                     const char *text);
void connection_hang_up(struct connection *connection);
void connection_close(struct connection *connection);

#endif
