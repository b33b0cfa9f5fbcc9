/* The states of chunks, and the order of locks: what a debug build ends at. Argument: what to do wrong. */
#include <string.h>

#include "fake_driver.h"
#include "shim/base/lock.h"
#include "shim/mem/chunk.h"

#include "check.h"

static struct lock high = LOCK_INIT(LOCK_POOLS);
static struct lock low = LOCK_INIT(LOCK_EXTENTS);
static struct lock lowest = LOCK_INIT(LOCK_SOCKET);

static void test_transitions(void)
{
    unsigned allowed = 0;
    for (int from = 0; from <= CHUNK_DECOMMITTED; from++) {
        for (int to = 0; to <= CHUNK_DECOMMITTED; to++) {
            allowed += chunk_may_transition((enum chunk_state)from, (enum chunk_state)to);
            CHECK(from != to ||
                  !chunk_may_transition((enum chunk_state)from, (enum chunk_state)to));
        }
    }
    CHECK(allowed == 11);
    CHECK(!chunk_may_transition(CHUNK_UNTOUCHED, CHUNK_EVICTED)); /* nothing is in it */
    CHECK(!chunk_may_transition(CHUNK_MOVING, CHUNK_DECOMMITTED));
    CHECK(!chunk_may_transition(CHUNK_DECOMMITTED, CHUNK_RESIDENT));
    struct chunk chunk = {.state = CHUNK_UNTOUCHED};
    CHECK(chunk_lacks_memory(&chunk) && !chunk_has_memory(&chunk));
    chunk_transition(&chunk, CHUNK_RESIDENT);
    chunk_transition(&chunk, CHUNK_MOVING);
    CHECK(chunk_has_memory(&chunk) && !chunk_lacks_memory(&chunk));
    chunk_transition(&chunk, CHUNK_EVICTED);
    CHECK(chunk_lacks_memory(&chunk));
    chunk.decommit_wanted = true;
    CHECK(!chunk_lacks_memory(&chunk));
}

static void test_locks(void)
{
    lock_take(&high);
    lock_take(&low);
    lock_take(&lowest);
    lock_drop(&low); /* in any order */
    lock_drop(&high);
    lock_drop(&lowest);
    lock_take(&low);
    CHECK(lock_try(&high)); /* which does not wait */
    lock_drop(&high);
    lock_drop(&low);
}

int main(int argc, char **argv)
{
    struct chunk chunk = {.state = CHUNK_EVICTED};
    const char *wrong = argc > 1 ? argv[1] : "";
    test_transitions();
    test_locks();
    if (!strcmp(wrong, "state")) {
        chunk_transition(&chunk, CHUNK_UNTOUCHED);
    } else if (!strcmp(wrong, "order")) {
        lock_take(&low);
        lock_take(&high);
    } else if (!strcmp(wrong, "twice")) {
        lock_take(&low);
        lock_take(&low);
    } else if (!strcmp(wrong, "drop")) {
        lock_drop(&low);
    }
    return check_end();
}
