/* A question to the agent in a connection of its own: the process does not become a client by it. */
#ifndef MOIETY_SHIM_AGENT_ONE_QUESTION_H
#define MOIETY_SHIM_AGENT_ONE_QUESTION_H

#include <stddef.h>

#include "wire/wire.h"

/* Sends `question` to the agent of this process (MOIETY_SOCKET) and waits patience_s seconds at most for the answer,
 * of `bytes` and of this type. 0, -EPROTO: the answer is another one, -ENOENT: there is no agent for this process, or
 * another negative errno. */
int one_question_ask(const void *question, void *answer, size_t bytes, enum mw_type type,
                     unsigned patience_s);

#endif
