/* Variables that differ by rank: `%r` is the rank, `%[a;b;c]` the part of that place, `%%` a per cent sign. */
#ifndef MOIETY_SUPERVISOR_TEMPLATE_H
#define MOIETY_SUPERVISOR_TEMPLATE_H

#include <stddef.h>

char *template_fill(const char *template, size_t rank);

#endif
