/* One conversation with an agent: hello, welcome, and the same again with the next agent. */
#ifndef MOIETY_SHIM_AGENT_HANDSHAKE_H
#define MOIETY_SHIM_AGENT_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct session {
    /* Set by the owner before the first handshake: takes over what an agent says in its welcome, 0 or a
     * negative errno; and tells the next agent the state of this process. */
    int (*welcomed)(struct session *session, const struct mw_welcome *welcome, int lease);
    void (*tell_state)(int socket);
    char path[108]; /* of the socket */
    int memfd;      /* of the counters */
    struct mw_counters *counters;
    uint32_t epoch;
    bool was_welcomed;  /* an agent has welcomed this process once */
    uint64_t opened_ns; /* when this agent last took us back; 0: never */
    uint32_t hasty;     /* conversations in a row that ended soon after */
};

/* Connects for the first time. 0, or a negative errno after having said why. */
int handshake_open(struct session *session, const char *path);
/* Connects again, for as long as it takes, and tells the agent what this process has. */
void handshake_reopen(struct session *session, bool holding);
void handshake_after_fork(struct session *session);

#endif
