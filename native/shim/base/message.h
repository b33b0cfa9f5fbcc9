/* Sentences for the person in front of the program, on stderr; MOIETY_QUIET=1 silences them. */
#ifndef MOIETY_SHIM_BASE_MESSAGE_H
#define MOIETY_SHIM_BASE_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "moiety: <what>" and, if hint is given, "  try: <hint>". One write, so lines never mix. */
void message_print(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As message_print, but only for the first thread that comes with this flag. For programs that try
 * again and again. */
void message_once(atomic_bool *said, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes to stderr without ever waiting for it: what cannot be written at once is lost. */
void message_write_at_once(const char *text, size_t size);

/* Nanoseconds on CLOCK_MONOTONIC. */
uint64_t now_ns(void);

#endif
