/* Draining: nothing of this process is in the driver or on a GPU any more, and the agent is told.
 *
 * The agent is heard meanwhile (drain_listener.h). Control thread, where nothing else is said. */
#ifndef MOIETY_SHIM_CONTROL_DRAIN_H
#define MOIETY_SHIM_CONTROL_DRAIN_H

#include "shim/control/drain_listener.h"
#include <stdbool.h>
#include <stdint.h>

struct session;

/* Sets what is called with messages, and at the loss of the agent, while a drain waits. */
void drain_connect(struct session *of, drain_listener_hear *with, drain_listener_lost *without);

/* The agent revoked the lease: drains, unless a drain goes on, which is then the one that is answered. */
void drain_revoke(uint32_t epoch);
/* The agent lets one thread at the gate go on for one call; then it drains as before. */
void drain_step(uint32_t epoch);
/* Drains for an agent that is not connected yet. False: the drain listener has connected to one
 * meanwhile and told it all. *holding: the lease was granted meanwhile. */
bool drain_for_new_agent(bool *holding);
/* What has moved so far goes into the counters. */
void drain_count_moves(void);

/* Either thread: the lease was granted; or another agent has taken this process back with its lease. */
void drain_note_grant(void);
void drain_note_reopened(void);

#endif
