/* A sentence that is said once, whichever thread comes first. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/message.h"

#include "check.h"

#define THREADS 8
#define ROUNDS 200

static _Atomic unsigned printed;
static pthread_barrier_t barrier;
static atomic_bool flags[ROUNDS];

/* The message's code asks for MOIETY_QUIET before it prints. */
char *getenv(const char *name)
{
    static char quiet[] = "1";
    printed += strcmp(name, "MOIETY_QUIET") == 0;
    return quiet;
}

static void test_a_flag_is_good_for_one_sentence(void)
{
    atomic_bool one = false, other = false;
    message_once(&one, NULL, "%s", "one");
    CHECK(printed == 1);
    message_once(&one, NULL, "%s", "one");
    CHECK(printed == 1);
    message_once(&other, "try it", "%s", "other");
    CHECK(printed == 2);
    message_print(NULL, "%s", "each time");
    message_print(NULL, "%s", "each time");
    CHECK(printed == 4);
}

static void *say(void *unused)
{
    (void)unused;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        message_once(&flags[round], NULL, "%u", round);
    }
    return NULL;
}

static void test_of_many_threads_one_says_it(void)
{
    pthread_t threads[THREADS];
    printed = 0;
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, say, NULL) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(printed == ROUNDS);
}

int main(void)
{
    test_a_flag_is_good_for_one_sentence();
    test_of_many_threads_one_says_it();
    return check_end();
}
