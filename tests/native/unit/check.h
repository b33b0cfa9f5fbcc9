/* Checks for small programs that are linked with the shim's own sources. */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static unsigned check_count;
static unsigned check_failures;

static inline void check_that(bool holds, int line, const char *what)
{
    check_count++;
    if (!holds) {
        check_failures++;
        printf("line %d: %s does not hold\n", line, what);
    }
}
#define CHECK(condition) check_that((condition), __LINE__, #condition)

/* What main returns. */
static inline int check_end(void)
{
    printf("%u checks, %u failed\n", check_count, check_failures);
    return check_failures || !check_count;
}

/* The same numbers in each run (xorshift). */
static inline uint32_t check_random(uint32_t below)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
}

#endif
