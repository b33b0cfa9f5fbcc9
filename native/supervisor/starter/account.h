/* The users and groups of a workload that are allowed, by the machine's own tables of users and groups. */
#ifndef MOIETY_SUPERVISOR_ACCOUNT_H
#define MOIETY_SUPERVISOR_ACCOUNT_H

#include "supervisor/base/spec.h"

int account_check(const struct spec *spec, uid_t server, const char **wrong);

#endif
