/* The recorder's functions, one for each of the driver's in cuda/cuda_calls.def, and the driver's own. */
#ifndef MOIETY_RECORDER_CALLS_H
#define MOIETY_RECORDER_CALLS_H

#include <stdbool.h>

#include "shim/base/driver.h"

extern const char *const calls_names[ENTRY_COUNT];
extern void *const calls_ours[ENTRY_COUNT];
#define CALLS_REAL(name) ((__typeof__(&name))driver_entries[ENTRY_##name])

/* Finds the driver; false while the program has not loaded it. */
bool calls_load(void);

#endif
