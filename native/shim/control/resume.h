/* What is taken over from a welcome, and what a new agent or the end of a drain is told of this
 * process' memory. */
#ifndef MOIETY_SHIM_CONTROL_RESUME_H
#define MOIETY_SHIM_CONTROL_RESUME_H

#include <stdint.h>

struct session;
struct mw_welcome;

/* An agent has taken this process in. 0, or a negative errno: its lease cannot be mapped. */
int resume_welcomed(struct session *session, const struct mw_welcome *welcome, int lease);
/* Tells a new agent all that it has to know and sends through its socket from then on. */
void resume_tell_state(int socket);
/* Tells that nothing runs any more, and what is resident on each GPU. Control thread. */
void resume_tell_drained(uint32_t epoch);

#endif
