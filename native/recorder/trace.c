#include "recorder/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/lock.h"

#define WINDOW (4u << 20) /* bytes of the file that are mapped at a time; they survive a kill */
#define LINE_MAX_BYTES 16384
#define ELEMENTS_MAX 256

static struct lock lock;
static pid_t owner; /* a child that was forked writes a file of its own */
static int file = -1;
static char *window;
static uint64_t window_at, used;
static uint64_t last_us;
static unsigned threads;
static __thread unsigned thread_number;

struct line {
    char text[LINE_MAX_BYTES];
    size_t bytes;
};

static void put_char(struct line *line, char c)
{
    if (line->bytes < sizeof line->text - 1) {
        line->text[line->bytes++] = c;
    }
}

static void put_text(struct line *line, const char *text)
{
    for (; *text; text++) {
        put_char(line, *text);
    }
}

static void put_hex(struct line *line, uint64_t value)
{
    char digits[16];
    int n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value);
    while (n) {
        put_char(line, digits[--n]);
    }
}

static void put_decimal(struct line *line, uint64_t value)
{
    char digits[20];
    int n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n) {
        put_char(line, digits[--n]);
    }
}

static void put_bytes(struct line *line, const void *at, size_t bytes)
{
    const unsigned char *byte = at;
    for (size_t i = 0; i < bytes; i++) {
        put_char(line, "0123456789abcdef"[byte[i] >> 4]);
        put_char(line, "0123456789abcdef"[byte[i] & 15]);
    }
}

/* ---- the file ---- */

static bool map_window(uint64_t at)
{
    if (window) {
        munmap(window, WINDOW);
        window = NULL;
    }
    if (ftruncate(file, (off_t)(at + WINDOW)) != 0) {
        return false;
    }
    void *made = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)at);
    window = made == MAP_FAILED ? NULL : made;
    window_at = at;
    return window != NULL;
}

/* Copies a line into the file; a line may lie across two windows. */
static void append(const char *text, size_t bytes)
{
    while (bytes && window) {
        uint64_t in_window = used - window_at;
        size_t part = WINDOW - in_window < bytes ? (size_t)(WINDOW - in_window) : bytes;
        memcpy(window + in_window, text, part);
        used += part;
        text += part;
        bytes -= part;
        if (bytes && !map_window(window_at + WINDOW)) {
            return;
        }
    }
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Called with the lock held. */
static bool is_open(void)
{
    pid_t self = getpid();
    if (owner == self) {
        return window != NULL;
    }
    const char *folder = getenv("MOIETY_RECORD");
    char path[4096];
    struct line line;
    owner = self;
    window = NULL; /* a parent's stays mapped, and is the parent's */
    if (!folder || !*folder) {
        return false;
    }
    snprintf(path, sizeof path, "%s/%s-%d.calls", folder, program_invocation_short_name, (int)self);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    used = 0;
    last_us = now_us();
    if (file < 0 || !map_window(0)) {
        static const char said[] = "moiety: the folder in MOIETY_RECORD cannot be written to, so "
                                   "nothing is recorded; make it, or choose another\n";
        (void)!write(STDERR_FILENO, said, sizeof said - 1);
        return false;
    }
    line.bytes = 0;
    put_text(&line, "# calls 1\n# program ");
    put_text(&line, program_invocation_short_name);
    put_char(&line, '\n');
    append(line.text, line.bytes);
    return true;
}

__attribute__((destructor)) static void close_file(void)
{
    LOCK_SCOPE(&lock);
    if (owner == getpid() && window) {
        (void)!ftruncate(file, (off_t)used);
    }
}

/* ---- one call ---- */

static uint64_t number_in(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* How many elements the arrays of a call have: what the parameter says that is called so. */
static size_t elements(const struct argument *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct argument *one = &arguments[i];
        if (one->kind == PLAIN && one->bytes <= 8 &&
            (strncmp(one->name, "num", 3) == 0 || strcmp(one->name, "count") == 0)) {
            uint64_t value = number_in(one->at, one->bytes);
            return value < ELEMENTS_MAX ? (size_t)value : ELEMENTS_MAX;
        }
    }
    return 1;
}

/* Pointers to pointers that the driver reads, although their type would let it write. */
static bool is_read(const char *name)
{
    return strcmp(name, "kernel_params") == 0 || strcmp(name, "extra") == 0 ||
           strcmp(name, "option_values") == 0 || strcmp(name, "data") == 0 ||
           strncmp(name, "jit_option", 10) == 0 || strncmp(name, "library_option", 14) == 0;
}

static void put_target(struct line *line, const struct argument *one, uint64_t value, int result,
                       size_t count)
{
    const void *target = (const void *)(uintptr_t)value;
    if (!target) {
        return;
    }
    switch ((enum kind)one->kind) {
    case OUT:
        if (result == 0 && !is_read(one->name)) {
            put_char(line, '>');
            if (one->target <= 8) {
                put_hex(line, number_in(target, one->target));
            } else {
                put_bytes(line, target, one->target);
            }
        }
        break;
    case IN:
        put_char(line, '=');
        put_bytes(line, target, count * one->target);
        break;
    case TEXT:
        put_char(line, '"');
        for (const char *c = target; *c && c - (const char *)target < 1024; c++) {
            put_char(line, *c <= ' ' || *c == '"' ? '_' : *c);
        }
        break;
    case CONFIG: {
        const CUlaunchConfig *config = target;
        put_char(line, '=');
        put_bytes(line, config, sizeof *config);
        if (config->attrs) {
            unsigned attributes = config->numAttrs < 16 ? config->numAttrs : 16;
            put_bytes(line, config->attrs, attributes * sizeof *config->attrs);
        }
        break;
    }
    case PLAIN:
        break;
    }
}

void trace_call(const char *name, int result, const struct argument *arguments, size_t count)
{
    LOCK_SCOPE(&lock);
    if (!is_open()) {
        return;
    }
    static struct line line; /* under the lock: stacks of callbacks are small */
    uint64_t now = now_us();
    size_t in_arrays = elements(arguments, count);
    if (!thread_number) {
        thread_number = ++threads;
    }
    line.bytes = 0;
    put_decimal(&line, now - last_us);
    put_char(&line, ' ');
    put_decimal(&line, thread_number - 1);
    put_char(&line, ' ');
    put_text(&line, name);
    put_char(&line, ' ');
    put_decimal(&line, (unsigned)result);
    for (size_t i = 0; i < count; i++) {
        const struct argument *one = &arguments[i];
        put_char(&line, ' ');
        if (one->bytes > 8) {
            put_char(&line, '=');
            put_bytes(&line, one->at, one->bytes);
            continue;
        }
        uint64_t value = number_in(one->at, one->bytes);
        put_hex(&line, value);
        put_target(&line, one, value, result, in_arrays);
    }
    put_char(&line, '\n');
    last_us = now;
    append(line.text, line.bytes);
}

void trace_remark(const char *word, const char *text)
{
    LOCK_SCOPE(&lock);
    if (is_open()) {
        append("# ", 2);
        append(word, strlen(word));
        append(" ", 1);
        append(text, strlen(text));
        append("\n", 1);
    }
}
