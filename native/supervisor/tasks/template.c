#include "supervisor/tasks/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_DIGITS 20u

/* The part of `a;b;c` at this place; nothing if there are not that many. */
static const char *part_at(const char *list, const char *end, size_t place, size_t *length)
{
    while (place && list < end) {
        const char *next = memchr(list, ';', (size_t)(end - list));
        list = next ? next + 1 : end;
        place--;
    }
    const char *stop = memchr(list, ';', (size_t)(end - list));
    *length = (size_t)((stop ? stop : end) - list);
    return list;
}

/* The most bytes that it can have: each %r grows to a number, and nothing else grows. */
static size_t capacity_of(const char *template)
{
    size_t bytes = strlen(template) + 1;
    for (const char *at = template; (at = strchr(at, '%')) != NULL; at++) {
        bytes += RANK_DIGITS;
    }
    return bytes;
}

/* The text for one rank, to be freed; NULL without memory. */
char *template_fill(const char *template, size_t rank)
{
    size_t capacity = capacity_of(template), used = 0;
    char *text = malloc(capacity);
    for (const char *at = template; text && *at; at++) {
        const char *end = at[0] == '%' && at[1] == '[' ? strchr(at, ']') : NULL;
        if (end) {
            size_t length;
            const char *part = part_at(at + 2, end, rank, &length);
            memcpy(text + used, part, length);
            used += length;
            at = end;
        } else if (at[0] == '%' && at[1] == 'r') {
            used += (size_t)snprintf(text + used, capacity - used, "%zu", rank);
            at++;
        } else {
            at += at[0] == '%' && at[1] == '%';
            text[used++] = *at;
        }
    }
    if (text) {
        text[used] = '\0';
    }
    return text;
}
