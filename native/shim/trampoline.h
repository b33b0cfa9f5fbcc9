/* What of the driver the shim does not know.
 *
 * A program looks up hundreds of names that it never calls, so only calls mean anything. A call
 * passes the gate, like any that may start work; and because it may make or expose device memory,
 * it pins its caller before it goes on. Calls are counted, and the agent is told the names.
 */
#ifndef MOIETY_SHIM_TRAMPOLINE_H
#define MOIETY_SHIM_TRAMPOLINE_H

#include <stdint.h>

struct passage;

/* A function that leads to `function` through the gate; `function` itself when there are too many. */
void *trampoline_for(const char *name, void *function);
/* One of those was called. */
void trampoline_called(struct passage *passage);
/* Something else that is not known was used, which has a name: the same as a call. */
void trampoline_used(const char *name);
/* Tells an agent what was called before it was there, and pins for that. */
void trampoline_tell(void);
/* Calls so far. */
uint64_t trampoline_calls(void);
void trampoline_after_fork(void);

#endif
