/* NVML's answers about memory, as a share sees them. */
#ifndef MOIETY_SHIM_HOOKS_NVML_H
#define MOIETY_SHIM_HOOKS_NVML_H

#include <stdbool.h>

/* Whether a function of NVML of this name is answered by us. */
bool nvml_is_wrapped(const char *name);
/* What stands in its place for a program that found it, through this handle; NULL: nothing. */
void *nvml_wrapped(void *handle, const char *name, void *found);

#endif
