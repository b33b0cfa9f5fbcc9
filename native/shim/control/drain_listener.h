/* Somebody listens while the control thread waits.
 *
 * What runs on a GPU can wait for a thread that stands at the closed gate. Then the control thread,
 * which waits for the GPU, would not hear that the lease was given back for a moment. So when its
 * waiting takes long, a second thread hears messages in its place, one at a time and never while
 * the control thread does. Where all goes quickly that costs two system calls and no switch of
 * threads: the second one is woken by a timer.
 */
#ifndef MOIETY_SHIM_CONTROL_DRAIN_LISTENER_H
#define MOIETY_SHIM_CONTROL_DRAIN_LISTENER_H

#include "shim/agent/socket.h"

/* What is done with a message, by either thread, but never by both at a time. */
typedef void drain_listener_hear(const union agent_message *message);

/* What is done when the agent is gone: it connects to the next one. */
typedef void drain_listener_lost(void);

/* Control thread: from here to drain_listener_end it waits, and touches nothing that `with` and `without` touch.
 * Messages about memory that moves stay where they are: they are the control thread's. */
void drain_listener_begin(drain_listener_hear *with, drain_listener_lost *without);
void drain_listener_end(void);
void drain_listener_after_fork(void);

#endif
