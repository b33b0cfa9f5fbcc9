/* Descriptors that close themselves, and small files read whole. */
#ifndef MOIETY_SUPERVISOR_DESCRIPTOR_H
#define MOIETY_SUPERVISOR_DESCRIPTOR_H

#include <stddef.h>
#include <sys/types.h>

/* A descriptor that is closed at the end of its scope, unless it is negative. */
#define CLOSING __attribute__((cleanup(descriptor_close)))

void descriptor_close(const int *fd);
int descriptor_number(const char *text);
void descriptor_keep_only(const int *kept, size_t count);
int descriptor_cloexec_from(int first);
int descriptor_fill_standard(void);
void descriptor_to_null(int fd);
ssize_t descriptor_read_text(int folder, const char *name, char *text, size_t capacity);
int descriptor_write_text(int folder, const char *name, const char *text);
int descriptor_give_to_owner(int folder, int fd);
int descriptor_write_all(int fd, const char *bytes, size_t count);

#endif
