/* The environment is changed by hand: setenv may free the list that another thread of the program reads. */
#include "shim/base/environment.h"

#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-redundant-declaration) libc's, declared only with _GNU_SOURCE
extern char **environ;

static bool has_name_of(const char *entry, const char *other)
{
    size_t bytes = strcspn(other, "=");
    return strncmp(entry, other, bytes) == 0 && entry[bytes] == '=';
}

/* A list with one entry more; what was the list before stays. */
static bool append(struct environment_entry *entry)
{
    char **before = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
    size_t count = 0;
    while (before && before[count]) {
        count++;
    }
    char **made = malloc((count + 2) * sizeof(*made));
    if (!made) {
        return false;
    }
    if (count) {
        memcpy(made, before, count * sizeof(*made));
    }
    made[count] = entry->ours;
    made[count + 1] = NULL;
    entry->placed = made;
    __atomic_store_n(&environ, made, __ATOMIC_RELEASE);
    return true;
}

bool environment_replace(struct environment_entry *entry)
{
    char **at = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
    for (; at && *at; at++) {
        if (has_name_of(*at, entry->ours)) {
            entry->theirs = *at;
            __atomic_store_n(at, entry->ours, __ATOMIC_RELEASE);
            return true;
        }
    }
    entry->theirs = NULL;
    return append(entry);
}

void environment_restore(struct environment_entry *entry)
{
    char **at = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
    while (at && *at && *at != entry->ours) {
        at++;
    }
    if (at && *at && entry->theirs) {
        __atomic_store_n(at, entry->theirs, __ATOMIC_RELEASE);
        return;
    }
    for (; at && *at; at++) { /* as unsetenv does; it is the last, unless the program added some */
        __atomic_store_n(at, at[1], __ATOMIC_RELEASE);
    }
}
