#include "shim/agent/terminal_notice.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/message.h"

#define LINE_MAX_BYTES 320
#define DELETE 0x7f

static bool is_set(const char *text) { return text && *text && *text != '0'; }

bool terminal_notice_is_wanted(void)
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

void terminal_notice_print(const char *text, size_t size)
{
    char line[LINE_MAX_BYTES];
    if (!terminal_notice_is_wanted()) {
        return; /* stderr is something else by now */
    }
    int n = snprintf(line, sizeof(line) - 1, "moiety: %.*s", (int)size, text);
    if (n > (int)sizeof(line) - 2) {
        n = (int)sizeof(line) - 2;
    }
    for (int i = 0; i < n; i++) { /* a name in it must not control the terminal */
        if ((unsigned char)line[i] < ' ' || line[i] == DELETE) {
            line[i] = '?';
        }
    }
    line[n] = '\n';
    message_write_at_once(line, (size_t)n + 1);
}
