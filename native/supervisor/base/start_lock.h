/* The lock of a workload's folder: its holder alone starts, and writes its records. */
#ifndef MOIETY_SUPERVISOR_START_LOCK_H
#define MOIETY_SUPERVISOR_START_LOCK_H

#include <stdint.h>

int start_lock_take(int folder);
int start_lock_announce(int folder);
int start_lock_wait(int folder, uint64_t attempt);

#endif
