/* The drain listener: a second thread that receives messages while the control thread waits.
 *
 * Work on a GPU can wait for a thread that stands at the closed gate. The control thread waits for
 * that work, and would not hear that the lease is granted again for a moment. So when its wait
 * takes long, the drain listener receives messages in its place, one at a time and never while the
 * control thread does. A short wait costs two system calls and no switch of threads, because a
 * timer wakes the listener.
 */
#ifndef MOIETY_SHIM_CONTROL_DRAIN_LISTENER_H
#define MOIETY_SHIM_CONTROL_DRAIN_LISTENER_H

#include "shim/agent/socket.h"

/* Handles a message. Either thread calls it, but never both at a time. */
typedef void drain_listener_hear(const union agent_message *message);

/* Called when the agent is gone: connects to the next one. */
typedef void drain_listener_lost(void);

/* Control thread: from here to drain_listener_end it waits, and touches nothing that `with` and
 * `without` touch. Messages about memory that moves are left to the control thread. */
void drain_listener_begin(drain_listener_hear *with, drain_listener_lost *without);
void drain_listener_end(void);
void drain_listener_after_fork(void);

#endif
