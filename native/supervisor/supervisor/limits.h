/* The resource limits of a workload's process: rlimit.NAME=soft:hard. */
#ifndef MOIETY_SUPERVISOR_LIMITS_H
#define MOIETY_SUPERVISOR_LIMITS_H

#include "supervisor/base/spec.h"

int limits_set(const struct spec *spec, const char **wrong);
void limits_finish(const struct spec *spec);

#endif
