#include "supervisor/supervisor/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define PREFIX "rlimit."

static const struct name {
    const char *name;
    int resource;
} names[] = {
    {"AS", RLIMIT_AS},
    {"CORE", RLIMIT_CORE},
    {"CPU", RLIMIT_CPU},
    {"DATA", RLIMIT_DATA},
    {"FSIZE", RLIMIT_FSIZE},
    {"MEMLOCK", RLIMIT_MEMLOCK},
    {"MSGQUEUE", RLIMIT_MSGQUEUE},
    {"NICE", RLIMIT_NICE},
    {"NOFILE", RLIMIT_NOFILE},
    {"NPROC", RLIMIT_NPROC},
    {"RSS", RLIMIT_RSS},
    {"RTPRIO", RLIMIT_RTPRIO},
    {"RTTIME", RLIMIT_RTTIME},
    {"SIGPENDING", RLIMIT_SIGPENDING},
    {"STACK", RLIMIT_STACK},
};

static int read_limit(const char *text, size_t length, rlim_t *value)
{
    char copy[24];
    uint64_t number;
    if (length >= sizeof copy) {
        return -EINVAL;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (!strcmp(copy, "unlimited")) {
        *value = RLIM_INFINITY;
        return 0;
    }
    int failed = spec_number(copy, &number);
    *value = (rlim_t)number;
    return failed;
}

/* The resource and the limit of a record; -ENOENT if it is about something else. */
static int parse(const char *record, int *resource, struct rlimit *limit)
{
    size_t prefix = strlen(PREFIX);
    const char *equals = strchr(record, '=');
    if (strncmp(record, PREFIX, prefix) != 0 || !equals) {
        return -ENOENT;
    }
    const char *name = record + prefix;
    size_t length = (size_t)(equals - name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) == length && !strncmp(names[i].name, name, length)) {
            const char *soft = equals + 1;
            const char *colon = strchr(soft, ':');
            *resource = names[i].resource;
            if (!colon) {
                return -EINVAL;
            }
            int failed = read_limit(soft, (size_t)(colon - soft), &limit->rlim_cur);
            return failed ? failed : read_limit(colon + 1, strlen(colon + 1), &limit->rlim_max);
        }
    }
    return -EINVAL;
}

/* Sets all limits; the soft one of open files only when all files are open. */
int limits_set(const struct spec *spec, const char **wrong)
{
    const char *record = NULL;
    while ((record = spec_next(spec, record)) != NULL) {
        struct rlimit limit;
        int resource;
        int failed = parse(record, &resource, &limit);
        if (failed == -ENOENT) {
            continue;
        }
        if (!failed && resource == RLIMIT_NOFILE && limit.rlim_cur < limit.rlim_max) {
            limit.rlim_cur = limit.rlim_max;
        }
        if (!failed && setrlimit(resource, &limit)) {
            failed = -errno;
        }
        if (failed) {
            *wrong = record;
            return failed;
        }
    }
    return 0;
}

void limits_finish(const struct spec *spec)
{
    const char *record = NULL;
    while ((record = spec_next(spec, record)) != NULL) {
        struct rlimit limit;
        int resource;
        if (!parse(record, &resource, &limit) && resource == RLIMIT_NOFILE) {
            (void)setrlimit(resource, &limit);
        }
    }
}
