/* What a process is known by: its pid counts only together with its start time and the boot. */
#ifndef MOIETY_SUPERVISOR_IDENTITY_H
#define MOIETY_SUPERVISOR_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BOOT_ID_BYTES 40u

/* What /proc/PID/stat says of a process. */
struct process {
    pid_t pid, parent, group, session;
    char state;
    uint64_t start_ticks; /* since the boot */
    bool is_chosen;       /* process_table.h */
};

int identity_boot(char text[BOOT_ID_BYTES]);
int identity_read(pid_t pid, struct process *process);
bool identity_holds(pid_t pid, uint64_t start_ticks);
uint64_t identity_now_ticks(void);
bool process_has_ended(const struct process *process);
bool process_ends_by(const struct process *process, int signal_number);
int process_signal(const struct process *process, int signal_number);

#endif
