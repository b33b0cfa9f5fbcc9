/* What the programs share that make every mistake there is and say what they are told: a line for each
 * call, and the same in every round, however often memory leaves and comes back between the calls. */
#ifndef MISTAKES_H
#define MISTAKES_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)

static FILE *mistakes_out;

#define SAY(call) fprintf(mistakes_out, "%s:%d %d %s\n", __func__, __LINE__, (int)(call), #call)
#define TELL(value) \
    fprintf(mistakes_out, "%s:%d %s = %lld\n", __func__, __LINE__, #value, (long long)(value))

/* A value that no enumeration of the driver's has. */
static inline int no_such(void) { return (int)strtol("999", NULL, 10); }

static volatile sig_atomic_t mistakes_enough;

static inline void mistakes_stop(int number)
{
    (void)number;
    mistakes_enough = 1;
}

static inline void must(CUresult result, int line, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "line %d: %s failed with error %d\n", line, what, (int)result);
        exit(1);
    }
}
#define OK(call) must(call, __LINE__, #call)

/* What one round says. The caller frees it. */
static inline char *mistakes_of(void (*make)(void))
{
    char *text = NULL;
    size_t bytes = 0;
    mistakes_out = open_memstream(&text, &bytes);
    make();
    fclose(mistakes_out);
    return text;
}

/* Makes them again and again until SIGUSR1, or so many times (0: no end), and says what they were
 * answered the first time; what they were later, if that was anything else. Returns the exit code. */
static inline int mistakes_repeat(void (*make)(void), long most)
{
    signal(SIGUSR1, mistakes_stop); /* which may come in the first round */
    char *first = mistakes_of(make);
    int same = 1;
    fputs(first, stdout);
    fflush(stdout);
    for (long i = 1; same && !mistakes_enough && i != most; i++) {
        char *again = mistakes_of(make);
        same = strcmp(first, again) == 0;
        if (!same) {
            printf("round %ld:\n%s", i, again);
        }
        free(again);
    }
    free(first);
    return same ? 0 : 1;
}

/* Memory that is in the way of others, so that it leaves and comes back. */
static inline CUdeviceptr mistakes_ballast(size_t bytes)
{
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, bytes));
    OK(cuMemsetD32_v2(at, 0x5eed5eed, bytes / 4));
    return at;
}

static inline int mistakes_ballast_is_whole(CUdeviceptr at, size_t bytes)
{
    unsigned *words = malloc(bytes);
    size_t wrong = 0;
    OK(cuMemcpyDtoH_v2(words, at, bytes));
    for (size_t i = 0; i < bytes / 4; i++) {
        wrong += words[i] != 0x5eed5eed;
    }
    free(words);
    return wrong == 0;
}

#endif
