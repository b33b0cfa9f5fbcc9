/* The recorder's functions, one for each of the driver's in cuda/cuda_calls.def. */
#ifndef MOIETY_RECORDER_CALLS_H
#define MOIETY_RECORDER_CALLS_H

#include "shim/base/driver.h"

extern void *const calls_ours[ENTRY_COUNT];

#endif
