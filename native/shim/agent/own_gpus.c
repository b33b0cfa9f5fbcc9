#include "shim/agent/own_gpus.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "shim/agent/one_question.h"
#include "shim/base/disable.h"
#include "shim/base/lock.h"
#include "wire/gpus.h"

#define PATIENCE_S 30u
#define RETRY_NS 20000000L
#define RETRIES 250u /* an agent that was killed has a successor within 5 s */

_Static_assert(VISIBLE_MAX == MW_GPUS_MAX, "an answer has room for all that a program may see");

static struct lock ask_lock = LOCK_INIT(LOCK_OWN_GPUS);
static struct visible_gpus found;
static _Atomic bool known;

static int ask(struct mw_gpus *answer)
{
    struct mw_gpus_query question = {.header = {MW_GPUS_QUERY, sizeof(question), 0}};
    struct timespec pause = {0, RETRY_NS};
    for (unsigned i = 0;; i++) {
        int error = one_question_ask(&question, answer, sizeof(*answer), MW_GPUS, PATIENCE_S);
        bool is_dead = error == -ECONNREFUSED || error == -ECONNRESET || error == -EPIPE;
        if (!is_dead || i == RETRIES) {
            return error;
        }
        nanosleep(&pause, NULL);
    }
}

/* Whether the agent answered, or never will. */
static bool find(void)
{
    struct mw_gpus answer = {0};
    int error = ask(&answer);
    found.count = error ? 0 : answer.count < VISIBLE_MAX ? answer.count : VISIBLE_MAX;
    for (uint32_t i = 0; i < found.count; i++) {
        const char *prefix = answer.mig >> i & 1u ? "MIG-" : "GPU-";
        visible_list_name(found.names[i], prefix, answer.uuids + (size_t)i * MW_UUID_BYTES);
    }
    return !error || error == -EPROTO;
}

const struct visible_gpus *own_gpus(void)
{
    if (shim_is_disabled()) {
        return NULL;
    }
    if (!atomic_load(&known)) {
        LOCK_SCOPE(&ask_lock);
        if (!known) {
            known = find();
        }
    }
    return found.count ? &found : NULL;
}

void own_gpus_after_fork(void) { lock_after_fork(&ask_lock); }
