#include "simgpu/shared/process_identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sg_state *sg_state;
struct sg_process *sg_process;

/* When the process was started, in clock ticks since boot; 0 when it is gone or a zombie. */
static uint64_t start_time(uint32_t pid)
{
    char path[64], text[1024], state;
    unsigned long long ticks;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *rest = strrchr(text, ')'); /* the name in parentheses may hold anything */
    if (!rest ||
        sscanf(rest + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &state, &ticks) != 2) {
        return 0;
    }
    return state == 'Z' || state == 'X' ? 0 : ticks ? ticks : 1;
}

/* The pid namespace of the calling process. A pid means the same only inside one namespace. */
static uint64_t pid_namespace(void)
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/* A file with one byte for each slot, which the owner of the slot locks. The kernel unlocks it when the
 * owner ends, and reports the owner's pid in the namespace of the process that asks. The file is never
 * closed: that would release all locks of the process, also those of the other library with this code. */
static int lock_file = -1;

static struct flock slot_lock(const struct sg_process *process)
{
    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = process - sg_state->process,
                          .l_len = 1};
}

int sg_slot_locks_are_open(void) { return lock_file >= 0; }

void sg_slot_locks_open(int file) { lock_file = file; }

void sg_process_register(struct sg_process *process)
{
    uint32_t pid = (uint32_t)getpid();
    process->start_time = start_time(pid);
    process->namespace = pid_namespace();
    process->pid = pid;
    struct flock lock = slot_lock(process);
    fcntl(lock_file, F_SETLK, &lock);
}

int sg_process_is_own(const struct sg_process *process)
{
    return process->pid == (uint32_t)getpid() && process->namespace == pid_namespace();
}

int sg_process_lives(const struct sg_process *process)
{
    if (process->pid == 0) {
        return 0;
    }
    if (process->namespace == pid_namespace()) {
        return start_time(process->pid) == process->start_time;
    }
    struct flock lock = slot_lock(process);
    return fcntl(lock_file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

uint32_t sg_process_pid(const struct sg_process *process)
{
    if (process->namespace == pid_namespace()) {
        return process->pid;
    }
    struct flock lock = slot_lock(process);
    return fcntl(lock_file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0
               ? (uint32_t)lock.l_pid
               : 0;
}
