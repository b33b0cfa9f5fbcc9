/* The file that the calls are written to: one for each process, readable whenever it ends.
 *
 * $MOIETY_RECORD names a folder; PROGRAM-PID.calls is made there at the first call. Each line is one call,
 * in the order in which they returned:
 *
 *   MICROSECONDS THREAD NAME RESULT ARGUMENT...
 *
 * since the line before; threads are counted from 0. An argument is a hexadecimal number; behind it, where the
 * call has one: `>` and what the driver wrote there, `=` and bytes that it pointed to, `"` and a name.
 * Lines that begin with # describe the program. docs/traces.md has the whole format.
 */
#ifndef MOIETY_RECORDER_TRACE_H
#define MOIETY_RECORDER_TRACE_H

#include <stddef.h>

#include "recorder/argument.h"

/* Adds a call. Nothing happens where no trace is wanted, or none can be written. */
void trace_call(const char *name, int result, const struct argument *arguments, size_t count);
/* Adds `# WORD TEXT`. */
void trace_remark(const char *word, const char *text);

#endif
