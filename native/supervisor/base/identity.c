#include "supervisor/base/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"

#ifndef SYS_pidfd_send_signal
#    define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#    define SYS_pidfd_open 434
#endif

int identity_boot(char text[BOOT_ID_BYTES])
{
    ssize_t got =
        descriptor_read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, BOOT_ID_BYTES);
    if (got < 0) {
        return (int)got;
    }
    text[strcspn(text, "\n")] = '\0';
    return 0;
}

/* Terminal, flags, faults and times are not of interest. */
#define SKIP_5 " %*s %*s %*s %*s %*s"
#define SKIP_15 SKIP_5 SKIP_5 SKIP_5

/* Reads /proc/PID/stat; -ESRCH if there is no such process. */
int identity_read(pid_t pid, struct process *process)
{
    char path[40], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    ssize_t got = descriptor_read_text(AT_FDCWD, path, text, sizeof text);
    if (got < 0) {
        return got == -ENOENT ? -ESRCH : (int)got;
    }
    const char *after = strrchr(text, ')'); /* the name before it may have anything in it */
    *process = (struct process){.pid = pid};
    if (!after ||
        sscanf(after + 1, " %c %d %d %d" SKIP_15 " %" SCNu64, &process->state, &process->parent,
               &process->group, &process->session, &process->start_ticks) != 5) {
        return -EBADMSG;
    }
    return 0;
}

/* The present, as start times are counted. */
uint64_t identity_now_ticks(void)
{
    struct timespec now;
    uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * hertz + (uint64_t)now.tv_nsec * hertz / 1000000000u;
}

bool process_has_ended(const struct process *process)
{
    return process->state == 'Z' || process->state == 'X';
}

/* Whether this process runs, as the one that began then. */
bool identity_holds(pid_t pid, uint64_t start_ticks)
{
    struct process process;
    return !identity_read(pid, &process) && process.start_ticks == start_ticks &&
           !process_has_ended(&process);
}

static uint64_t signal_set(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? strtoull(line + strlen(name), NULL, 16) : UINT64_MAX;
}

/* Whether this signal ends the process: it has no handler for it, and does not ignore it. */
bool process_ends_by(const struct process *process, int signal_number)
{
    char path[40], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)process->pid);
    if (descriptor_read_text(AT_FDCWD, path, text, sizeof text) < 0) {
        return false;
    }
    uint64_t kept = signal_set(text, "\nSigIgn:") | signal_set(text, "\nSigCgt:");
    return !(kept >> (signal_number - 1) & 1u);
}

/* Sends a signal to this process, and to no other that has got its number since. */
int process_signal(const struct process *process, int signal_number)
{
    CLOSING int fd = (int)syscall(SYS_pidfd_open, process->pid, 0u);
    if (fd < 0 && errno != ENOSYS) {
        return -errno;
    }
    if (!identity_holds(process->pid, process->start_ticks)) {
        return -ESRCH;
    }
    long failed = fd < 0 ? kill(process->pid, signal_number)
                         : syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0u);
    return failed ? -errno : 0;
}
