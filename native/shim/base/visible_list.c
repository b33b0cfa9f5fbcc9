#include "shim/base/visible_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES 4 /* GPU- or MIG- */

void visible_list_name(char name[VISIBLE_NAME_BYTES], const char *prefix, const uint8_t *uuid)
{
    int at = snprintf(name, VISIBLE_NAME_BYTES, "%s", prefix);
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        at += snprintf(name + at, VISIBLE_NAME_BYTES - (size_t)at, "%s%02x", dash, uuid[i]);
    }
}

static int find_number(const char *entry, size_t bytes, const struct visible_gpus *gpus)
{
    unsigned long number = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (entry[i] < '0' || entry[i] > '9' || number > VISIBLE_MAX) {
            return -1;
        }
        number = number * 10 + (unsigned long)(entry[i] - '0');
    }
    return bytes && number < gpus->count ? (int)number : -1;
}

static int find_uuid(const char *entry, size_t bytes, const struct visible_gpus *gpus)
{
    int found = -1;
    for (uint32_t i = 0; bytes > PREFIX_BYTES && i < gpus->count; i++) {
        if (bytes < VISIBLE_NAME_BYTES && strncmp(gpus->names[i], entry, bytes) == 0) {
            if (found >= 0) {
                return -1; /* of several */
            }
            found = (int)i;
        }
    }
    return found;
}

/* The GPU of one entry; -1: it names none. */
static int find_gpu(const char *entry, size_t bytes, const struct visible_gpus *gpus)
{
    while (bytes && *entry == ' ') {
        entry++;
        bytes--;
    }
    while (bytes && entry[bytes - 1] == ' ') {
        bytes--;
    }
    int number = find_number(entry, bytes, gpus);
    return number >= 0 ? number : find_uuid(entry, bytes, gpus);
}

void visible_list_write(const char *program, const struct visible_gpus *gpus,
                        char text[VISIBLE_TEXT_BYTES])
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t written = 0; written < VISIBLE_MAX; written++) {
        size_t bytes = program ? strcspn(program, ",") : 0;
        int gpu = program ? find_gpu(program, bytes, gpus) : (int)written;
        if (gpu < 0 || (uint32_t)gpu >= gpus->count) {
            return;
        }
        at += (size_t)snprintf(text + at, VISIBLE_TEXT_BYTES - at, "%s%s", written ? "," : "",
                               gpus->names[gpu]);
        if (program && !program[bytes]) {
            return;
        }
        program = program ? program + bytes + 1 : NULL;
    }
}
