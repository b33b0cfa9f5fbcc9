/* Lines for whoever sits before the program: why it stands still, in the agent's words.
 *
 * They never cost the program anything: nothing here waits for a terminal that is stopped or a pipe
 * that nobody empties; a line that cannot be written at once is lost.
 */
#ifndef MOIETY_SHIM_AGENT_TERMINAL_NOTICE_H
#define MOIETY_SHIM_AGENT_TERMINAL_NOTICE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether somebody wants them: MOIETY_SAY=always or never; else where stderr is a terminal. */
bool terminal_notice_is_wanted(void);
/* Writes one line to stderr; text ends at a NUL, or after `size` bytes. Control thread. */
void terminal_notice_print(const char *text, size_t size);

#endif
