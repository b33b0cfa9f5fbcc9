/* moiety-tasks COUNT first|all NAME=TEMPLATE... -- PROGRAM [ARGUMENT...]: one process for each rank of a workload.
 *
 * Ends when all have ended, with 0; or as the first one that fails ends. What is left then is ended by the
 * supervisor, whose main process this is. With `first`, signals that reach this process are for rank 0. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/base/exit_status.h"
#include "supervisor/base/spec.h"
#include "supervisor/tasks/template.h"

#define TASKS_MAX 4096u
#define CANNOT_EXECUTE 127

struct tasks {
    pid_t pids[TASKS_MAX]; /* by rank; 0: it has ended */
    size_t count, left;
    bool is_forwarding, is_ending;
};

static int complain(int status, const char *what, int error)
{
    (void)fprintf(stderr, "moiety-tasks: %s: %s\n", what, strerror(error));
    return status;
}

/* Becomes the program of one rank. */
__attribute__((noreturn)) static void become(size_t rank, char **templates, char **program)
{
    for (char **each = templates; strcmp(*each, "--") != 0; each++) {
        char *filled = template_fill(*each, rank);
        if (!filled || putenv(filled)) {
            _exit(complain(CANNOT_EXECUTE, *each, ENOMEM));
        }
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint) to execute what it is told is its purpose
    execvp(program[0], program);
    _exit(complain(CANNOT_EXECUTE, program[0], errno));
}

/* Starts all ranks; a negative errno if one cannot be forked. */
static int start_all(struct tasks *tasks, char **templates, char **program)
{
    for (size_t rank = 0; rank < tasks->count; rank++) {
        pid_t pid = fork();
        if (pid < 0) {
            return -errno;
        }
        if (pid == 0) {
            become(rank, templates, program);
        }
        tasks->pids[rank] = pid;
        tasks->left++;
    }
    return 0;
}

static size_t rank_of(const struct tasks *tasks, pid_t pid)
{
    size_t rank = 0;
    while (rank < tasks->count && tasks->pids[rank] != pid) {
        rank++;
    }
    return rank;
}

/* Ends as the rank did, so that the exit record says what happened to it. */
__attribute__((noreturn)) static void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        struct rlimit none = {0, 0}; /* the rank has written its core */
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, number);
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(number, SIG_DFL);
        (void)sigprocmask(SIG_UNBLOCK, &only, NULL);
        (void)raise(number);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : CANNOT_EXECUTE);
}

static void tell_failure(const struct tasks *tasks, size_t rank, int status)
{
    if (tasks->is_ending) {
        return;
    }
    bool is_signal = WIFSIGNALED(status);
    (void)fprintf(stderr, "moiety: process %zu of %zu %s %d; the others are ended\n", rank,
                  tasks->count, is_signal ? "was ended by signal" : "ended with exit code",
                  is_signal ? WTERMSIG(status) : WEXITSTATUS(status));
    (void)fflush(stderr);
}

/* Reaps what has ended. Does not return once one has failed. */
static void reap(struct tasks *tasks)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        size_t rank = rank_of(tasks, pid);
        if (rank == tasks->count) {
            continue; /* no rank: it was started before this program was executed */
        }
        tasks->pids[rank] = 0;
        tasks->left--;
        if (!WIFEXITED(status) || WEXITSTATUS(status)) {
            tell_failure(tasks, rank, status);
            end_as(status);
        }
    }
}

/* The supervisor sends SIGTERM to all processes itself. */
static void on_signal(struct tasks *tasks, int number)
{
    if (number == SIGTERM) {
        tasks->is_ending = true;
    } else if (number != SIGCHLD && tasks->is_forwarding && tasks->pids[0]) {
        (void)kill(tasks->pids[0], number);
    }
}

static void wait_for_all(struct tasks *tasks)
{
    sigset_t all;
    sigfillset(&all);
    for (reap(tasks); tasks->left; reap(tasks)) {
        on_signal(tasks, sigwaitinfo(&all, NULL));
    }
}

int main(int argc, char **argv)
{
    uint64_t count = 0;
    char **templates = argc > 3 ? argv + 3 : NULL, **program = templates;
    while (program && *program && strcmp(*program, "--") != 0) {
        program++;
    }
    bool is_whole = program && program[0] && program[1];
    if (!is_whole || spec_number(argv[1], &count) || !count || count > TASKS_MAX) {
        return complain(EXIT_USAGE, "COUNT first|all NAME=TEMPLATE... -- PROGRAM", EINVAL);
    }
    static struct tasks tasks;
    tasks.count = count;
    tasks.is_forwarding = strcmp(argv[2], "first") == 0;
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    int failed = start_all(&tasks, templates, program + 1);
    if (failed) {
        return complain(EXIT_CANNOT_WORK, "fork", -failed);
    }
    wait_for_all(&tasks);
    return 0;
}
