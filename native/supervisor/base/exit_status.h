/* How the programs end; the numbers are those of sysexits.h. */
#ifndef MOIETY_SUPERVISOR_EXIT_STATUS_H
#define MOIETY_SUPERVISOR_EXIT_STATUS_H

enum exit_status {
    EXIT_WROTE_RECORD = 0,
    EXIT_USAGE = 64,
    EXIT_CANNOT_WORK = 71,
    EXIT_ALREADY_STARTED = 75
};

#endif
