/* The connection to the agent: packets out from any thread, packets in for the control thread. */
#ifndef MOIETY_SHIM_AGENT_SOCKET_H
#define MOIETY_SHIM_AGENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/host.h"
#include "wire/wire.h"

/* Room for any message of this version. */
union agent_message {
    struct mw_header header;
    struct mw_hello hello;
    struct mw_welcome welcome;
    struct mw_refused refused;
    struct mw_attach attach;
    struct mw_attached attached;
    struct mw_amount amount;
    struct mw_alloc alloc;
    struct mw_free free;
    struct mw_credit allowance;
    struct mw_evicted evicted;
    struct mw_lease_note note;
    struct mw_drained drained;
    struct mw_idle_timeout watch;
    struct mw_queue_depth pace;
    struct mw_pinned pinned;
    struct mw_pin pin;
    struct mw_arena arena;
    struct mw_mode mode;
    struct mw_share share;
    struct mw_unknown unknown;
    struct mw_warning warning;
    struct mw_terminal_line say;
    unsigned char bytes[512];
};

/* What a thread that asked something waits for. */
struct agent_request {
    union agent_message message; /* the question, then the answer */
    struct agent_request *next;
    _Atomic uint32_t answered;
};

/* From now on all threads send through this socket. First the agent gets `states`, and once more
 * the requests whose answers were lost with the last agent. */
void agent_begin(int socket, struct mw_attach *states, uint32_t count);
/* Closes the connection, if there is one. Requests stay queued. */
void agent_close(void);
int agent_fd(void);
/* Whether the agent has hung up, also if messages of it are still to be received. */
bool agent_is_lost(void);

/* Sends a message. Without a connection it is dropped, because a new agent is told the whole state
 * anyway. */
void agent_send(void *message, size_t bytes, enum mw_type type);
/* The same with descriptors, which stay the caller's; false: it was not sent. A reply has the
 * request's serial in its header. */
bool agent_send_fds(void *message, size_t bytes, enum mw_type type, const int *fds, uint32_t count);
void agent_note(enum mw_type type, uint32_t epoch);
void agent_amount(enum mw_type type, uint32_t gpu, uint64_t bytes);

/* Asks and sleeps until the control thread delivers the answer, into request->message. */
void agent_ask(struct agent_request *request, size_t bytes, enum mw_type type);
/* Control thread: the next message; 1, 0 when none came within timeout_ns (UINT64_MAX: for ever), or
 * a negative errno when the connection is gone. */
int agent_receive(union agent_message *message, uint64_t timeout_ns);
/* For a thread that receives in the control thread's place: the next message of a type that `takes`
 * accepts, which brings no descriptor. All other messages are received later. 1, 0 when there is
 * none, or a negative errno. */
int agent_sift(bool (*takes)(int type), union agent_message *message);
/* Control thread: the next message of this type; messages of other types are received later. */
int agent_fetch(enum mw_type type, union agent_message *message, uint64_t timeout_ns);
/* Control thread: a descriptor that the last message brought, now the caller's, in their order; -1:
 * there is none (any more). */
int agent_take_fd(void);
/* Whether the calling thread is the one that receives. */
bool agent_is_heard_here(void);
/* Control thread: takes the request with this serial out of the queue; NULL if there is none. */
struct agent_request *agent_take(uint32_t serial);
void agent_answer(struct agent_request *request, const union agent_message *answer);
void agent_after_fork(void);

#endif
