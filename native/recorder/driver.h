/* The driver that the program has loaded, and its own functions. */
#ifndef MOIETY_RECORDER_DRIVER_H
#define MOIETY_RECORDER_DRIVER_H

#include <stdbool.h>

#include "shim/base/driver.h"

typedef void *dlsym_fn(void *, const char *);

/* libc's dlsym, in whose place the recorder has its own. */
dlsym_fn *driver_dlsym(void);
/* False: the driver exports no such function. */
bool driver_exports(enum entry entry);

#endif
