/* Comparisons that call no other function: a sanitizer replaces those of libc, and looks symbols up
 * through the shim before those work. */
#ifndef MOIETY_SHIM_BASE_SAFE_STRING_H
#define MOIETY_SHIM_BASE_SAFE_STRING_H

#include <stdbool.h>

static inline bool safe_string_begins(const char *text, const char *with)
{
    while (*with && *text == *with) {
        text++;
        with++;
    }
    return !*with;
}

static inline bool safe_string_equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* The last part of a path. */
static inline const char *safe_string_file_name(const char *path)
{
    const char *name = path;
    for (; *path; path++) {
        if (*path == '/') {
            name = path + 1;
        }
    }
    return name;
}

#endif
