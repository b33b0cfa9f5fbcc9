/* Functions of the driver that the shim does not know.
 *
 * A program looks up hundreds of names that it never calls, so only calls mean anything. A call passes the
 * gate, like any that may start work; and because it may make or expose device memory, it pins its caller
 * before it goes on. Calls are counted and the names told to the agent.
 */
#ifndef MOIETY_SHIM_TRAMPOLINE_H
#define MOIETY_SHIM_TRAMPOLINE_H

#include <stdint.h>

/* A function that leads to `function` through the gate; `function` itself when there are too many. */
void *trampoline_for(const char *name, void *function);
/* One of them was called, for the so-manieth time. */
void trampoline_called(const char *name, uint64_t calls);
/* Calls so far through all of them. */
uint64_t trampoline_calls(void);
/* The first one that was called; NULL when none was. */
const char *trampoline_suspect(void);
void trampoline_after_fork(void);

#endif
