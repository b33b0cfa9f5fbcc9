/* Debuggers and profilers that cannot do their work on a shared GPU. `moiety run` refuses them by
 * name; this file finds the ones that a program of a share starts later
 * (src/moiety/cli/debugger_check.py says why). */
#ifndef MOIETY_SHIM_CONTROL_DEBUGGER_CHECK_H
#define MOIETY_SHIM_CONTROL_DEBUGGER_CHECK_H

/* The one that this process runs under; NULL if there is none, or with MOIETY_TOOLS=allow. */
const char *debugger_check_refused(void);

#endif
