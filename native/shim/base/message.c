#include "shim/base/message.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The program's own descriptor may block. O_NONBLOCK is not set on it, because other processes may
 * use the same open file. So a file that can block is opened once more. Without /proc, poll(2) says
 * first whether the file has room. */
void message_write_at_once(const char *text, size_t size)
{
    struct stat about;
    int own = -1;
    if (fstat(STDERR_FILENO, &about) != 0) {
        return;
    }
    if (S_ISSOCK(about.st_mode)) {
        send(STDERR_FILENO, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        return;
    }
    if (!S_ISREG(about.st_mode)) {
        struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
        own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own < 0 && poll(&room, 1, 0) <= 0) {
            return;
        }
    }
    if (write(own < 0 ? STDERR_FILENO : own, text, size) < 0) {
        /* there is nowhere else to write it */
    }
    if (own >= 0) {
        close(own);
    }
}

static __attribute__((format(printf, 2, 0))) void print(const char *hint, const char *format,
                                                        va_list list)
{
    char what[512];
    char text[1024];
    const char *quiet = getenv("MOIETY_QUIET");
    if (quiet && *quiet && *quiet != '0') {
        return;
    }
    vsnprintf(what, sizeof(what), format, list);
    int n = snprintf(text, sizeof(text), "moiety: %s\n%s%s%s", what, hint ? "  try: " : "",
                     hint ? hint : "", hint ? "\n" : "");
    if (n > (int)sizeof(text) - 1) {
        n = (int)sizeof(text) - 1;
    }
    message_write_at_once(text, (size_t)n);
}

void message_print(const char *hint, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print(hint, format, list);
    va_end(list);
}

void message_once(atomic_bool *said, const char *hint, const char *format, ...)
{
    if (atomic_exchange(said, true)) {
        return;
    }
    va_list list;
    va_start(list, format);
    print(hint, format, list);
    va_end(list);
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
