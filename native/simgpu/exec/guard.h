/* Runs work of the GPU so that an access to memory that is not there ends the work, not the program. */
#ifndef SIMGPU_GUARD_H
#define SIMGPU_GUARD_H

#include <stdint.h>

void sg_guard_install(void);

/* 0, or -1 when the work touched an address that is not mapped; then *address is it. */
int sg_guarded(void (*work)(void *), void *argument, uint64_t *address);

#endif
