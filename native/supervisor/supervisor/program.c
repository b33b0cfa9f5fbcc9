#include "supervisor/supervisor/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"
#include "supervisor/supervisor/limits.h"
#include "supervisor/supervisor/output.h"

#define CANNOT_EXECUTE 127

/* Says what failed, for the exit record, and ends this process. */
__attribute__((noreturn, format(printf, 3, 4))) static void give_up(int fd, int error,
                                                                    const char *format, ...)
{
    struct start_failure failure = {.error = error < 0 ? -error : error};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(failure.text, sizeof failure.text, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length;
    used = used < sizeof failure.text - 100 ? used : sizeof failure.text - 100;
    const char *why =
        failure.error == ESPIPE ? "It is a pipe or a socket, not a file" : strerror(failure.error);
    (void)snprintf(failure.text + used, sizeof failure.text - used, ": %s", why);
    (void)descriptor_write_all(fd, (const char *)&failure, sizeof failure);
    _exit(CANNOT_EXECUTE);
}

static void reset_signals(void)
{
    /* The C library keeps two signals for itself and refuses them, but a parent may have ignored them. */
    static const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } usual = {0}; /* SIG_DFL, as the kernel has it */
    for (int number = 1; number < NSIG; number++) {
        (void)syscall(SYS_rt_sigaction, number, &usual, NULL, sizeof usual.mask);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Waits until the record of this start is on disk. */
static void wait_for_go(int fd)
{
    char byte;
    ssize_t got;
    do {
        got = read(fd, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) {
        _exit(CANNOT_EXECUTE);
    }
    close(fd);
}

/* Takes on the user's groups and ids, for good. Groups come first: only root may set them. */
static void become_user(const struct spec *spec, int error_fd)
{
    gid_t *groups = NULL;
    int count = spec_groups(spec, &groups);
    if (count < 0) {
        give_up(error_fd, count, "groups");
    }
    if (geteuid() == 0 && setgroups((size_t)count, groups)) {
        give_up(error_fd, errno, "groups");
    }
    if (setresgid(spec->gid, spec->gid, spec->gid)) {
        give_up(error_fd, errno, "group %u", (unsigned)spec->gid);
    }
    if (setresuid(spec->uid, spec->uid, spec->uid)) {
        give_up(error_fd, errno, "user %u", (unsigned)spec->uid);
    }
    if (!spec->allows_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        give_up(error_fd, errno, "no new privileges");
    }
    free(groups);
}

static void open_standard(const struct spec *spec, struct outputs *outputs, int error_fd)
{
    const char *wrong = NULL;
    int failed = outputs_open(outputs, spec, &wrong);
    if (failed) {
        give_up(error_fd, failed, "%s", wrong);
    }
}

/* Says why a program that is there was not found: the interpreter in its first line is not, or its loader. */
static void give_up_missing(const char *program, int error_fd)
{
    char head[256];
    CLOSING int fd =
        strchr(program, '/') ? open(program, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof head - 1);
    head[got < 0 ? 0 : got] = '\0';
    if (!strncmp(head, "\177ELF", 4)) {
        give_up(error_fd, ENOENT, "%s: its loader", program);
    }
    if (strncmp(head, "#!", 2) != 0) {
        return;
    }
    char *name = head + 2 + strspn(head + 2, " \t");
    name[strcspn(name, " \t\n")] = '\0';
    char *carriage_return = strchr(name, '\r');
    const char *note = carriage_return ? "\\r (its lines end as those of Windows)" : "";
    if (carriage_return) {
        *carriage_return = '\0';
    }
    give_up(error_fd, ENOENT, "%s: its interpreter %s%s", program, name, note);
}

/* Does all that has to be done as this process, and executes the program. */
__attribute__((noreturn)) static void become(const struct spec *spec, const char *oom_score_adj,
                                             int error_fd)
{
    struct outputs outputs;
    const char *wrong = NULL;
    (void)descriptor_write_text(AT_FDCWD, "/proc/self/oom_score_adj", oom_score_adj);
    int failed = limits_set(spec, &wrong);
    if (failed) {
        give_up(error_fd, failed, "%s", wrong);
    }
    become_user(spec, error_fd);
    umask(spec->umask);
    const char *folder = spec_value(spec, "cwd");
    if (folder && chdir(folder)) {
        give_up(error_fd, errno, "working directory %s", folder);
    }
    char **arguments = spec_list(spec, "arg", spec->args);
    environ = spec_list(spec, "env", spec->envs);
    if (!arguments || !environ) {
        give_up(error_fd, ENOMEM, "arguments");
    }
    open_standard(spec, &outputs, error_fd);
    failed = descriptor_cloexec_from(STDERR_FILENO + 1);
    if (failed) {
        outputs_undo(&outputs);
        give_up(error_fd, failed, "descriptors");
    }
    limits_finish(spec);
    execvp(arguments[0], arguments); /* looks in the PATH of the user's environment */
    int error = errno;
    outputs_undo(&outputs);
    if (error == ENOENT) {
        give_up_missing(arguments[0], error_fd);
    }
    give_up(error_fd, error, "%s", arguments[0]);
}

/* Forks the process that will be the program once it is let go. */
int program_fork(struct program *program, const struct spec *spec, const char *oom_score_adj)
{
    int go[2], error[2];
    if (pipe2(go, O_CLOEXEC)) {
        return -errno;
    }
    if (pipe2(error, O_CLOEXEC)) {
        int failed = -errno;
        close(go[0]);
        close(go[1]);
        return failed;
    }
    pid_t pid = fork();
    if (pid == 0) {
        int kept[] = {go[0], error[1]};
        (void)setsid();
        reset_signals();
        descriptor_keep_only(kept, 2); /* the lock too is the supervisor's alone */
        wait_for_go(go[0]);
        become(spec, oom_score_adj, error[1]);
    }
    int failed = pid < 0 ? -errno : 0;
    close(go[0]);
    close(error[1]);
    if (failed) {
        close(go[1]);
        close(error[0]);
        return failed;
    }
    *program = (struct program){.pid = pid, .go_fd = go[1], .error_fd = error[0]};
    return 0;
}

/* Reads what the process said that has ended; whether it could not execute the program. */
bool program_read_failure(const struct program *program, struct start_failure *failure)
{
    ssize_t got = read(program->error_fd, failure, sizeof *failure);
    failure->text[sizeof failure->text - 1] = '\0';
    return got == (ssize_t)sizeof *failure;
}
