/* Whether this process is idle while it holds its lease, for an agent that asked. Control thread. */
#ifndef MOIETY_SHIM_CONTROL_IDLE_WATCH_H
#define MOIETY_SHIM_CONTROL_IDLE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* The agent wants to know when nothing was submitted for so long; 0: not any more. */
void idle_watch_set(uint64_t idle_us);
/* In how many ns to look again; UINT64_MAX: never. */
uint64_t idle_watch_step_ns(void);
/* Looks, and tells the agent if the process has become idle, or busy again. */
void idle_watch_look(uint32_t epoch);

#endif
