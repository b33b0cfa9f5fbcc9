/* Lines for the person at the program's terminal: why the program stands still, in the agent's
 * words.
 *
 * They never delay the program: nothing here waits for a terminal that is stopped or for a pipe
 * that no process reads. A line that cannot be written at once is lost.
 */
#ifndef MOIETY_SHIM_AGENT_TERMINAL_NOTICE_H
#define MOIETY_SHIM_AGENT_TERMINAL_NOTICE_H

#include <stdbool.h>
#include <stddef.h>

/* True if the lines are wanted: as MOIETY_SAY says (always or never), else if stderr is a terminal;
 * never with MOIETY_QUIET. */
bool terminal_notice_is_wanted(void);
/* Writes one line to stderr; text ends at a NUL, or after `size` bytes. Control thread. */
void terminal_notice_print(const char *text, size_t size);

#endif
