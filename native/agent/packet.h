/* One packet of a socket, with the descriptors that it brings. */
#ifndef MOIETY_AGENT_PACKET_H
#define MOIETY_AGENT_PACKET_H

#include <stdint.h>
#include <sys/types.h>

ssize_t packet_receive(int fd, void *packet, int *fds, uint32_t *count);

#endif
