/* Preloaded into a supervisor, or its starter: stops the supervisor at a call, so that a test can kill it there.
 *
 * HALT_AT=NAME:N is the Nth call of NAME in one process; a line with the pid goes to HALT_TOLD before it stops. What
 * the program executes is stopped too. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static char wanted[64],
    told_path[4096]; /* the program's environment replaces ours before it is executed */

__attribute__((constructor)) static void read_environment(void)
{
    const char *at = getenv("HALT_AT"), *told = getenv("HALT_TOLD");
    (void)snprintf(wanted, sizeof wanted, "%s", at ? at : "");
    (void)snprintf(told_path, sizeof told_path, "%s", told ? told : "");
}

static void halt_at(const char *name)
{
    static unsigned fsyncs, renames, flocks, execs;
    char now[32], line[32];
    unsigned *count = !strcmp(name, "fsync")    ? &fsyncs
                      : !strcmp(name, "rename") ? &renames
                      : !strcmp(name, "flock")  ? &flocks
                                                : &execs;
    (void)snprintf(now, sizeof now, "%s:%u", name, ++*count);
    bool is_meant = !strcmp(program_invocation_short_name, "moiety-supervisor");
    if (is_meant && !strcmp(wanted, now)) {
        int told = open(told_path, O_WRONLY | O_CLOEXEC);
        int length = snprintf(line, sizeof line, "%d\n", (int)getpid());
        if (told >= 0 && write(told, line, (size_t)length) == length) {
            close(told);
        }
        (void)raise(SIGSTOP);
    }
}

int fsync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    halt_at("fsync");
    return real(fd);
}

int renameat(int oldfd, const char *old, int newfd, const char *new)
{
    int (*real)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
    halt_at("rename");
    return real(oldfd, old, newfd, new);
}

int flock(int fd, int operation)
{
    int (*real)(int, int) = dlsym(RTLD_NEXT, "flock");
    halt_at("flock");
    return real(fd, operation);
}

int execvp(const char *file, char *const argv[])
{
    int (*real)(const char *, char *const[]) = dlsym(RTLD_NEXT, "execvp");
    halt_at("exec");
    return real(file, argv);
}

/* The starter gives supervisors an empty environment; for a test it is ours. */
int execve(const char *path, char *const argv[], char *const envp[])
{
    int (*real)(const char *, char *const[], char *const[]) = dlsym(RTLD_NEXT, "execve");
    return real(path, argv, envp[0] ? envp : environ);
}
