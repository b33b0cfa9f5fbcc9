/* Gives the layers below what they call of the layers above them, and resets all of them after a fork. */
#ifndef MOIETY_SHIM_CONTROL_WIRING_H
#define MOIETY_SHIM_CONTROL_WIRING_H

/* Before the first allocation. */
void wiring_connect(void);
/* In a forked child, which shares nothing with its parent's agent. */
void wiring_after_fork(void);

#endif
