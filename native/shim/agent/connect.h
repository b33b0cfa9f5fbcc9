/* A new connection to an agent: hello and welcome, before anything else is sent. */
#ifndef MOIETY_SHIM_AGENT_CONNECT_H
#define MOIETY_SHIM_AGENT_CONNECT_H

#include "shim/agent/socket.h"

/* Connects to the socket at `path`; says hello with `hello` and `memfd`. The socket, and the
 * welcome in *answer with its descriptor in *lease_fd, or a negative errno (-EPROTO: refused, in
 * *answer). The socket is used by nothing else before
 * agent_begin. */
int connect_agent(const char *path, const struct mw_hello *hello, int memfd,
                  union agent_message *answer, int *lease_fd);

#endif
