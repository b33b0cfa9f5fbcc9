#include "shim/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void say(const char *hint, const char *format, ...)
{
    char what[512];
    char text[1024];
    const char *quiet = getenv("MOIETY_QUIET");
    if (quiet && *quiet && *quiet != '0') {
        return;
    }
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    int n = snprintf(text, sizeof(text), "moiety: %s\n%s%s%s", what, hint ? "  try: " : "",
                     hint ? hint : "", hint ? "\n" : "");
    if (n > (int)sizeof(text) - 1) {
        n = (int)sizeof(text) - 1;
    }
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {
        return; /* nobody listens: there is nowhere else to say it */
    }
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
