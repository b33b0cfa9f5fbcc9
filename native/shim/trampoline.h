/* Counters in front of the driver's functions that the shim does not know.
 *
 * A program looks up hundreds of names that it never calls, so only calls mean anything. A small
 * piece of code counts and jumps on; it changes neither arguments nor stack.
 */
#ifndef MOIETY_SHIM_TRAMPOLINE_H
#define MOIETY_SHIM_TRAMPOLINE_H

#include <stdint.h>

/* A function that counts and goes on to `function`; `function` itself when no code can be made. */
void *trampoline_for(const char *name, void *function);
/* Calls so far through all of them. */
uint64_t trampoline_calls(void);
/* The first one called that might touch or expose device memory; NULL when none was. */
const char *trampoline_suspect(void);
void trampoline_after_fork(void);

#endif
