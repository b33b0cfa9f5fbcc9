#include "shim/hooks/visible.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/agent/own_gpus.h"
#include "shim/base/driver.h"
#include "shim/base/environment.h"
#include "shim/base/lock.h"

#define VARIABLE "CUDA_VISIBLE_DEVICES"

static struct lock init_lock = LOCK_INIT(LOCK_VISIBLE);
static _Atomic bool begun;    /* the driver has read the variable */
static _Atomic bool replaced; /* the variable is ours for the moment */
static char ours[sizeof(VARIABLE "=") + VISIBLE_TEXT_BYTES] = VARIABLE "=";
static struct environment_entry entry = {.ours = ours};
static bool watches_forks; /* under init_lock */

static void restore(void)
{
    if (atomic_exchange(&replaced, false)) {
        environment_restore(&entry);
    }
}

static void in_forked_child(void)
{
    restore(); /* another thread was starting the driver */
    lock_after_fork(&init_lock);
    own_gpus_after_fork();
}

// NOLINTNEXTLINE(bugprone-reserved-identifier) glibc's name: pthread_atfork is not in libc before glibc 2.34
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

static void watch_forks(void)
{
    if (!watches_forks) {
        watches_forks = true;
        __register_atfork(NULL, NULL, in_forked_child, NULL);
    }
}

CUresult visible_init(unsigned int flags)
{
    if (atomic_load(&begun)) {
        return DRIVER(cuInit)(flags);
    }
    LOCK_SCOPE(&init_lock);
    const struct visible_gpus *gpus = begun ? NULL : own_gpus();
    watch_forks();
    if (gpus) {
        visible_list_write(getenv(VARIABLE), gpus, ours + strlen(VARIABLE "="));
        replaced = environment_replace(&entry);
    }
    CUresult result = DRIVER(cuInit)(flags);
    restore();
    begun = begun || result == CUDA_SUCCESS;
    return result;
}
