#include "shim/notice.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 320
#define DELETE 0x7f

static bool is_set(const char *text) { return text && *text && *text != '0'; }

bool notice_is_wanted(void)
{
    const char *wanted = getenv("MOIETY_SAY");
    if (is_set(getenv("MOIETY_QUIET"))) {
        return false;
    }
    if (wanted && strcmp(wanted, "always") == 0) {
        return fcntl(STDERR_FILENO, F_GETFD) >= 0;
    }
    return !(wanted && strcmp(wanted, "never") == 0) && isatty(STDERR_FILENO) == 1;
}

/* The program's own descriptor may block, and making it one that does not would change it for all who
 * have it. So what can block is opened once more. */
static void write_at_once(const char *line, size_t size)
{
    struct stat about;
    if (fstat(STDERR_FILENO, &about) != 0) {
        return;
    }
    if (S_ISSOCK(about.st_mode)) {
        send(STDERR_FILENO, line, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        return;
    }
    int own = -1;
    int fd = STDERR_FILENO;
    if (!S_ISREG(about.st_mode)) {
        own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        fd = own;
    }
    if (fd >= 0 && write(fd, line, size) < 0) {
        /* nobody can read it now */
    }
    if (own >= 0) {
        close(own);
    }
}

void notice_line(const char *text, size_t size)
{
    char line[LINE_MAX_BYTES];
    if (!notice_is_wanted()) {
        return; /* stderr is something else by now */
    }
    int n = snprintf(line, sizeof(line) - 1, "moiety: %.*s", (int)size, text);
    if (n > (int)sizeof(line) - 2) {
        n = (int)sizeof(line) - 2;
    }
    for (int i = 0; i < n; i++) { /* names of other programs are in it, for a terminal */
        if ((unsigned char)line[i] < ' ' || line[i] == DELETE) {
            line[i] = '?';
        }
    }
    line[n] = '\n';
    write_at_once(line, (size_t)n + 1);
}
