/* What of the driver the shim does not know.
 *
 * A program looks up hundreds of names that it never calls, so only calls mean anything. A call
 * passes the gate, like any that may start work; and because it may make or expose device memory,
 * it pins its caller before it goes on. Calls are counted, and the agent is told the names.
 */
#ifndef MOIETY_SHIM_GATE_UNKNOWN_CALLS_H
#define MOIETY_SHIM_GATE_UNKNOWN_CALLS_H

#include <stdint.h>

/* A function that leads to `function` through the gate; `function` itself when there are too many. */
void *unknown_call_thunk(const char *name, void *function);
/* Something else that is not known was used, which has a name: the same as a call. */
void unknown_call_used(const char *name);
/* Tells an agent what was called before it was there, and pins for that. */
void unknown_calls_tell(void);
/* Calls so far. */
uint64_t unknown_calls_count(void);
void unknown_calls_after_fork(void);

#endif
