/* MOIETY_DISABLE=1: the program runs as if this library were not there. */
#ifndef MOIETY_SHIM_BASE_DISABLE_H
#define MOIETY_SHIM_BASE_DISABLE_H

#include <stdbool.h>

/* What the environment said when it was first asked. */
bool shim_is_disabled(void);

#endif
