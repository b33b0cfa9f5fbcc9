#include "supervisor/starter/supervisors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/base/descriptor.h"

int supervisors_add(struct supervisors *supervisors, const struct start *start)
{
    if (supervisors->count == supervisors->capacity) {
        size_t capacity = supervisors->capacity ? 2 * supervisors->capacity : 16;
        struct start *rows = realloc(supervisors->rows, capacity * sizeof *rows);
        if (!rows) {
            return -ENOMEM;
        }
        supervisors->rows = rows;
        supervisors->capacity = capacity;
    }
    supervisors->rows[supervisors->count++] = *start;
    return 0;
}

/* Takes one out by its pid; whether it was there. */
bool supervisors_take(struct supervisors *supervisors, pid_t pid, struct start *start)
{
    for (size_t i = 0; i < supervisors->count; i++) {
        if (supervisors->rows[i].pid == pid) {
            *start = supervisors->rows[i];
            supervisors->rows[i] = supervisors->rows[--supervisors->count];
            return true;
        }
    }
    return false;
}

bool supervisors_have(const struct supervisors *supervisors, pid_t pid)
{
    for (size_t i = 0; i < supervisors->count; i++) {
        if (supervisors->rows[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* The one of this workload that waits for a word; NULL if there is none. */
struct start *supervisors_held(const struct supervisors *supervisors, const char *id)
{
    for (size_t i = 0; i < supervisors->count; i++) {
        struct start *start = &supervisors->rows[i];
        if (start->word_fd >= 0 && !strcmp(start->id, id)) {
            return start;
        }
    }
    return NULL;
}

/* Hangs up on all that wait for a word: they end. */
void supervisors_give_up(const struct supervisors *supervisors)
{
    for (size_t i = 0; i < supervisors->count; i++) {
        descriptor_close(&supervisors->rows[i].word_fd);
        supervisors->rows[i].word_fd = -1;
    }
}
