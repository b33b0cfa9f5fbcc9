/* Runs work of the GPU so that an access to unmapped memory ends the work and not the program. */
#ifndef SIMGPU_GUARD_H
#define SIMGPU_GUARD_H

#include <stdint.h>

void sg_guard_install(void);

/* Returns 0, or -1 and the address if the work touched unmapped memory. */
int sg_guarded(void (*work)(void *), void *argument, uint64_t *address);
/* Ends the work as if it had touched unmapped memory there. Only work that is guarded calls it. */
void sg_guard_fail(uint64_t address);

#endif
