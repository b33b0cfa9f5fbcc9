/* A thread that waits for the gate in the control thread's place. An export that all processes have closed can leave,
 * and the next process that asks for it needs a pin and the lease of this one. */
#ifndef MOIETY_SHIM_IPC_PIN_AGAIN_H
#define MOIETY_SHIM_IPC_PIN_AGAIN_H

#include <stdbool.h>

#include "wire/wire.h"

/* Has the thread, which begins with the first call, call `answer` for a request. False: there is none. With
 * extent_lock held. */
bool ipc_pin_again(const struct mw_share *asked, void (*answer)(const struct mw_share *asked));
void ipc_pin_again_after_fork(void);

#endif
