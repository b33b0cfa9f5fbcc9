#include "simgpu/base/entry.h"

#include <pthread.h>

#include "simgpu/shared/state.h"

static int initialised, ended, forked, working;
__thread int sg_per_thread_default;
__thread int sg_in_host_function;
__thread int sg_on_gpu;

static void in_child(void)
{
    /* As with NVIDIA's driver, a forked child cannot use CUDA: the parent's threads are missing. */
    if (initialised) {
        forked = 1;
    }
}

__attribute__((destructor)) static void end(void)
{
    if (!initialised || forked) {
        return;
    }
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    /* While work still runs, the slot stays; the next process that looks frees it. */
    if (__atomic_load_n(&working, __ATOMIC_SEQ_CST) == 0) {
        sg_state_close();
    }
}

int sg_work_begin(void)
{
    __atomic_add_fetch(&working, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST)) {
        return 1;
    }
    sg_work_end();
    return 0;
}

void sg_work_end(void) { __atomic_sub_fetch(&working, 1, __ATOMIC_SEQ_CST); }

int sg_is_initialised(void) { return initialised; }

int sg_is_forked(void) { return forked; }

void sg_set_initialised(void)
{
    pthread_atfork(NULL, NULL, in_child);
    initialised = 1;
}

CUresult sg_enter(void)
{
    if (__builtin_expect(!initialised || forked, 0)) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (__builtin_expect(sg_in_host_function, 0)) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    return ended ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}
