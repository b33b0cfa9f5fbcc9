#include "supervisor/base/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_MS 10000u
#define UMASK 022u

/* Whether this can name a workload, its folder and its cgroup. */
bool spec_is_id(const char *text)
{
    size_t count =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return count > 0 && count <= SPEC_ID_MAX && !text[count] && text[0] != '.' && text[0] != '-';
}

/* A decimal number and nothing else. */
int spec_number(const char *text, uint64_t *number)
{
    if (!*text || strspn(text, "0123456789") != strlen(text)) {
        return -EINVAL;
    }
    errno = 0;
    *number = strtoull(text, NULL, 10);
    return -errno;
}

int spec_map(int fd, struct spec *spec)
{
    struct stat status;
    *spec = (struct spec){0};
    if (fstat(fd, &status)) {
        return -errno;
    }
    if (status.st_size <= 0 || status.st_size > SPEC_BYTES_MAX) {
        return status.st_size <= 0 ? -ENODATA : -EFBIG;
    }
    void *records = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (records == MAP_FAILED) {
        return -errno;
    }
    spec->records = records;
    spec->records_bytes = (size_t)status.st_size;
    return spec->records[spec->records_bytes - 1] ? -EBADMSG : 0;
}

void spec_unmap(struct spec *spec)
{
    if (spec->records) {
        munmap((void *)(uintptr_t)spec->records, spec->records_bytes);
    }
    spec->records = NULL;
    spec->records_bytes = 0;
}

/* The record after this one, or the first; NULL after the last. */
const char *spec_next(const struct spec *spec, const char *before)
{
    const char *next = before ? before + strlen(before) + 1 : spec->records;
    return next && next < spec->records + spec->records_bytes ? next : NULL;
}

/* What stands after `key=`, if this is such a record. */
static const char *value_in(const char *record, const char *key)
{
    size_t length = strlen(key);
    return !strncmp(record, key, length) && record[length] == '=' ? record + length + 1 : NULL;
}

const char *spec_value(const struct spec *spec, const char *key)
{
    const char *record = NULL;
    while ((record = spec_next(spec, record)) != NULL) {
        const char *value = value_in(record, key);
        if (value) {
            return value;
        }
    }
    return NULL;
}

/* All values of this key, and NULL after them. */
char **spec_list(const struct spec *spec, const char *key, size_t count)
{
    char **list = calloc(count + 1, sizeof *list);
    const char *record = NULL;
    size_t next = 0;
    while (list && next < count && (record = spec_next(spec, record)) != NULL) {
        const char *value = value_in(record, key);
        if (value) {
            list[next++] = (char *)(uintptr_t)value;
        }
    }
    return list;
}

static size_t count_of(const struct spec *spec, const char *key)
{
    const char *record = NULL;
    size_t count = 0;
    while ((record = spec_next(spec, record)) != NULL) {
        count += value_in(record, key) != NULL;
    }
    return count;
}

/* The groups; how many, or a negative errno. */
int spec_groups(const struct spec *spec, gid_t **groups)
{
    const char *text = spec_value(spec, "groups");
    gid_t *found = calloc(SPEC_GROUPS_MAX, sizeof *found);
    int count = 0;
    if (!found) {
        return -ENOMEM;
    }
    while (text && *text) {
        char *end = NULL;
        unsigned long group = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || count == SPEC_GROUPS_MAX) {
            free(found);
            return -EINVAL;
        }
        found[count++] = (gid_t)group;
        text = *end ? end + 1 : end;
    }
    *groups = found;
    return count;
}

static int optional_number(const struct spec *spec, const char *key, uint64_t most,
                           uint64_t *number)
{
    const char *text = spec_value(spec, key);
    if (!text) {
        return 0;
    }
    int failed = spec_number(text, number);
    return failed ? failed : (*number > most ? -ERANGE : 0);
}

/* Seconds, with parts of them. */
static int optional_seconds(const struct spec *spec, const char *key, uint64_t *ms)
{
    const char *text = spec_value(spec, key);
    if (!text) {
        return 0;
    }
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= 1e9)) {
        return -EINVAL;
    }
    *ms = (uint64_t)(seconds * 1000);
    return 0;
}

static int optional_flag(const struct spec *spec, const char *key, bool *flag)
{
    uint64_t number = 0;
    int failed = optional_number(spec, key, 1, &number);
    *flag = number == 1;
    return failed;
}

static int read_umask(const struct spec *spec, mode_t *mask)
{
    const char *text = spec_value(spec, "umask");
    char *end = NULL;
    unsigned long number = text ? strtoul(text, &end, 8) : UMASK;
    if (text && (end == text || *end || number > 0777)) {
        return -EINVAL;
    }
    *mask = (mode_t)number;
    return 0;
}

static int read_open_mode(const struct spec *spec, bool *truncates)
{
    const char *text = spec_value(spec, "open_mode");
    *truncates = text && !strcmp(text, "truncate");
    return !text || *truncates || !strcmp(text, "append") ? 0 : -EINVAL;
}

static int required_id(const struct spec *spec, const char *key, uint32_t *id)
{
    uint64_t number = UINT64_MAX;
    int failed = optional_number(spec, key, UINT32_MAX - 1u, &number);
    *id = (uint32_t)number;
    return number == UINT64_MAX ? -ENODATA : failed;
}

/* Reads all values but those that only the program's process needs; if one is wrong, says which. */
int spec_read(struct spec *spec, const char **wrong)
{
    const char *id = spec_value(spec, "id");
    int failed;
    *wrong = "id";
    if (!id || !spec_is_id(id)) {
        return -EINVAL;
    }
    memcpy(spec->id, id, strlen(id) + 1);
    spec->grace_ms = GRACE_MS;
    spec->args = count_of(spec, "arg");
    spec->envs = count_of(spec, "env");
#define READ(name, call) \
    *wrong = (name);     \
    failed = (call);     \
    if (failed) {        \
        return failed;   \
    }
    READ("attempt", optional_number(spec, "attempt", INT64_MAX, &spec->attempt))
    READ("uid", required_id(spec, "uid", &spec->uid))
    READ("gid", required_id(spec, "gid", &spec->gid))
    READ("umask", read_umask(spec, &spec->umask))
    READ("time_limit_s", optional_seconds(spec, "time_limit_s", &spec->time_limit_ms))
    READ("grace_s", optional_seconds(spec, "grace_s", &spec->grace_ms))
    READ("warn_signal",
         optional_number(spec, "warn_signal", (uint64_t)SIGRTMAX, &spec->warn_signal))
    READ("warn_s", optional_seconds(spec, "warn_s", &spec->warn_ms))
    READ("warn_first", optional_flag(spec, "warn_first", &spec->warns_first))
    READ("limit.memory_bytes",
         optional_number(spec, "limit.memory_bytes", INT64_MAX, &spec->memory_bytes))
    READ("limit.pids", optional_number(spec, "limit.pids", INT32_MAX, &spec->pids))
    READ("keep_children", optional_flag(spec, "keep_children", &spec->keeps_children))
    READ("allow_new_privileges",
         optional_flag(spec, "allow_new_privileges", &spec->allows_new_privileges))
    READ("open_mode", read_open_mode(spec, &spec->truncates_output))
    READ("arg", spec->args ? 0 : -ENODATA)
#undef READ
    return 0;
}
