/* libc's own lookups, which ours stand in front of, found without any of them. */
#ifndef MOIETY_SHIM_BASE_REAL_LIBC_H
#define MOIETY_SHIM_BASE_REAL_LIBC_H

/* A function of libc, or of the libdl that it once was beside; NULL if it is in neither. */
void *real_libc_find(const char *name);

#endif
