/* A process that ends while its other threads are in calls:  simgpu_exit_busy
 *
 * Four threads allocate, write and free without end, and main returns amid that. What their calls answer from
 * then on does not matter. Exit code 0: the process ended by its own return. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "simgpu_check.h"

#define THREADS 4
#define ROUNDS 20 /* of each thread, until main returns */

static CUcontext context;
static _Atomic int rounds;

static void *work(void *none)
{
    CUdeviceptr memory;
    (void)none;
    cuCtxSetCurrent(context);
    for (;; rounds++) {
        if (!cuMemAlloc_v2(&memory, 1 << 20)) {
            cuMemsetD8_v2(memory, 1, 1 << 20);
            cuMemFree_v2(memory);
        }
    }
    return NULL;
}

int main(void)
{
    context = begin();
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, work, NULL));
    }
    while (rounds < THREADS * ROUNDS) {
        usleep(100);
    }
    return 0;
}
